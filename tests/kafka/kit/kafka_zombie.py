"""Sets of numbers by key, at least once, by an instance that is stopped in the middle of a commit.

As a program: ``ADDRESS NAME STATE PROTOCOL [AT]`` runs it until it is idle; at the *AT*-th step of
a commit the process stops itself, as SIGSTOP from outside would stop it there.
"""

import os
import signal
import sys
from typing import Any

import statestores as ss
from statestores.failpoints import arm
from statestores.kafka import run
from statestores.processing import Topic, Topology


class Sets:
    """What came of each key, each time that something comes."""

    def __init__(self, name: str) -> None:
        """Describe it."""
        self.numbers = Topic(f"{name}-numbers", key=ss.utf8, value=ss.int64, partitions=1)
        self.sets = Topic(f"{name}-sets", key=ss.utf8, value=ss.json, partitions=1)
        self.topology = Topology(name)
        kept: Any = ss.KeyValue("kept", key=ss.utf8, value=ss.json)
        grouped = self.topology.stream(self.numbers).group_by_key()
        grouped.aggregate(list, lambda numbers, number: [*numbers, number], kept).to(self.sets)


def main(address: str, name: str, state: str, protocol: Any, at: str = "0") -> None:
    """Run it."""
    if int(at):
        arm("kafka.step-written", lambda: os.kill(os.getpid(), signal.SIGSTOP), at=int(at))
    settings: dict[str, Any] = {"consumer.fetch.wait.max.ms": 100, "log_level": 0}
    if protocol == "classic":
        settings |= {"consumer.session.timeout.ms": 2_000, "consumer.heartbeat.interval.ms": 200}
    run(
        Sets(name).topology,
        bootstrap_servers=address,
        state=state,
        backend="sqlite",
        guarantee="at_least_once",
        group_protocol=protocol,
        until="idle",
        settings=settings,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
