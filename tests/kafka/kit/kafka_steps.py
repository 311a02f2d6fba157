"""Closed windows and sessions, at least once, by an instance that dies at a step of a commit.

As a program: ``ADDRESS NAME STATE [AT]`` runs it until it is idle, or until the *AT*-th step.
"""

import sys
from typing import Any

from death_at_failpoint import die_at

import statestores as ss
from statestores.kafka import run
from statestores.processing import Record, Topic, Topology, closed, session, tumbling

SIZE_MS = 40
GAP_MS = 6


class Closing:
    """Sets of numbers by window and by session, each of which comes out once it is closed."""

    def __init__(self, name: str) -> None:
        """Describe it."""
        self.numbers = Topic(f"{name}-numbers", key=ss.utf8, value=ss.int64, partitions=1)
        self.windows = Topic(f"{name}-windows", key=ss.utf8, value=ss.json, partitions=1)
        self.sessions = Topic(f"{name}-sessions", key=ss.utf8, value=ss.json, partitions=1)
        self.topology = Topology(name)
        grouped = self.topology.stream(self.numbers).group_by_key()
        windows: Any = ss.Window(
            "in-windows", retention_ms=400, window_size_ms=SIZE_MS, key=ss.utf8, value=ss.json
        )
        _told(
            grouped.window(tumbling(SIZE_MS)).aggregate(list, _with, windows, emit=closed()),
            self.windows,
        )
        sessions: Any = ss.Session("in-sessions", retention_ms=400, key=ss.utf8, value=ss.json)
        _told(
            grouped.window(session(GAP_MS)).aggregate(
                list, _with, sessions, merge=lambda one, other: one + other, emit=closed()
            ),
            self.sessions,
        )


def _with(numbers: list[int], number: int) -> list[int]:
    return [*numbers, number]


def _told(table: Any, topic: Topic[str, Any]) -> None:
    """Write what comes out under the bare key."""
    table.to_stream().map(
        lambda each: Record(each.key.key, each.value, each.time_ms), key=ss.utf8, value=ss.json
    ).to(topic)


def main(address: str, name: str, state: str, at: str = "0") -> None:
    """Run it, with one commit for all that there is."""
    if int(at):
        die_at("kafka.step-written", int(at))
    run(
        Closing(name).topology,
        bootstrap_servers=address,
        state=state,
        backend="sqlite",
        guarantee="at_least_once",
        until="idle",
        commit_interval_ms=60_000,
        settings={"consumer.fetch.wait.max.ms": 100, "log_level": 0},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
