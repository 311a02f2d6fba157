"""The count in statestores: BOOTSTRAP NAME SOURCE TARGET STATE [each], until it is killed."""

import sys

import statestores as ss
from statestores.kafka import run
from statestores.processing import Topic, Topology
from statestores.processing.runtime import LEAST_COLUMN_ROWS


def main(
    bootstrap: str, name: str, source: str, target: str, state: str, outputs: str = "chosen"
) -> None:
    """Count; with *outputs* "each", every update comes out, as records one by one give it."""
    topology = Topology(name)
    given = topology.stream(Topic(source, key=ss.utf8, value=ss.int64))
    counts = given.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    counts.to(Topic(target, key=ss.utf8, value=ss.int64))
    run(
        topology,
        bootstrap_servers=bootstrap,
        state=state,
        backend="rocksdb",
        commit_interval_ms=100,
        least_column_rows=1 << 60 if outputs == "each" else LEAST_COLUMN_ROWS,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
