"""Topologies drawn at random, and the processes that run one on a cluster until they die."""

import sys
from pathlib import Path

from statestores.kafka import run
from statestores_conformance.faults.crash_child import die_at, serve

DRAWN = str(Path(__file__).parents[2] / "processing" / "random_topologies" / "kit")
if DRAWN not in sys.path:
    sys.path.insert(0, DRAWN)

from drawn_topology import drawn_topology  # noqa: E402  # after the path to it

_NEVER = 1 << 60
_SETTINGS = {
    # A dead instance is missed, and its transaction ended, after two seconds.
    "producer.transaction.timeout.ms": 2_000,
    "consumer.session.timeout.ms": 2_000,
    "consumer.heartbeat.interval.ms": 200,
    "consumer.fetch.wait.max.ms": 100,
    "log_level": 0,
}


def live(*, address: str, seed: int, prefix: str, state: str, failpoint: str, at: int) -> None:
    """Run the topology of *seed* until it is idle, or dies at *failpoint*, if that has a name."""
    if failpoint:
        die_at(failpoint, at)
    run(
        drawn_topology(seed, prefix).topology,
        bootstrap_servers=address,
        state=state,
        backend="sqlite",
        group_protocol="classic",
        settings=_SETTINGS,
        commit_records=4,
        least_column_rows=_NEVER,
        least_run_rows=_NEVER,
        until="idle",
    )


if __name__ == "__main__":
    serve(live)
