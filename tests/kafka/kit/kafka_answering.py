"""The last number of each key, kept by processes that answer until they die."""

import json
from pathlib import Path

from forked_nursery import ForkedNursery

import statestores as ss
from statestores.kafka import run
from statestores.kafka.run_arguments import ChangelogFormat
from statestores.processing import Context, Processor, Record, Topic, Topology
from statestores_conformance.faults.crash_child import serve

STORE = ss.KeyValue("last", key=ss.utf8, value=ss.int64)
KEY = "number"
SETTINGS = {
    # A dead instance is missed, and its transaction ended, after two seconds.
    "producer.transaction.timeout.ms": 2_000,
    "consumer.session.timeout.ms": 2_000,
    "consumer.heartbeat.interval.ms": 200,
    "consumer.fetch.wait.max.ms": 100,
    "log_level": 0,
}


class Keeping(Processor[str, int, str, int]):
    """Keeps the last value of each key, and forwards it."""

    last = STORE

    def open(self, context: Context[str, int]) -> None:
        """Begin."""

    def process(self, record: Record[str, int]) -> None:
        """Keep and forward."""
        self.store(self.last).put(record.key, record.value)
        self.forward(record)


class Numbers:
    """The topics and the topology."""

    def __init__(self, name: str) -> None:
        """Describe it: one partition of each."""
        self.name = name
        self.given = Topic(f"{name}-given", key=ss.utf8, value=ss.int64, partitions=1)
        self.kept = Topic(f"{name}-kept", key=ss.utf8, value=ss.int64, partitions=1)

    def topology(self) -> Topology:
        """Keep, and say so."""
        made = Topology(self.name)
        kept = made.stream(self.given).process(Keeping, name="keep", key=ss.utf8, value=ss.int64)
        kept.to(self.kept)
        return made


class Instance:
    """A process that runs it."""

    def __init__(
        self,
        directory: Path,
        name: str,
        address: str,
        application: str,
        *,
        backend: str = "sqlite",
        changelog_format: str = "rows",
    ) -> None:
        """Start it."""
        self._state = directory / name
        self.nursery = ForkedNursery(Path(__file__))
        self._asked = {
            "address": address,
            "name": application,
            "state": str(self._state),
            "backend": backend,
            "changelog_format": changelog_format,
        }
        self.nursery.start(self._asked)

    def start_again(self) -> None:
        """Start it after it was killed, over the state that it left."""
        self.nursery.start(self._asked)

    @property
    def instance(self) -> str:
        """The name that it has among instances."""
        found: str = json.loads((self._state / "instance.json").read_text("utf-8"))["instance"]
        return found


def live(
    *, address: str, name: str, state: str, backend: str, changelog_format: ChangelogFormat
) -> None:
    """Run an instance until it dies."""
    run(
        Numbers(name).topology(),
        bootstrap_servers=address,
        state=state,
        backend=backend,
        changelog_format=changelog_format,
        group_protocol="classic",
        settings=SETTINGS,
        commit_interval_ms=20,
        standby_replicas=1,
        serve="127.0.0.1:0",
    )


if __name__ == "__main__":
    serve(live)
