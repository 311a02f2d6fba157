"""At least once, killed between the steps of a commit: each record counts, once or more."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forked_programs
import pytest
from kafka_cluster import TestCluster
from kafka_steps import Closing

import statestores as ss
from statestores.kafka.changelog_rows import ChangelogRow
from statestores.kafka.tasks.task_writer import TaskWriter
from statestores.processing import Record
from statestores.spi import TopicPartition

_PROGRAM = Path(__file__).parents[1] / "kit" / "kafka_steps.py"
_STEPS = 6
"""The outputs, two stores for the windows, two for the sessions, and the task's own."""


@pytest.mark.crash
@pytest.mark.timeout(300)
@pytest.mark.spec("KFK-2", "KFK-43")
def test_a_kill_between_two_steps_loses_no_record(cluster: TestCluster, tmp_path: Path) -> None:
    """All changes were flushed at once, and a crash left some topics with them, and others without.

    A window was there, and not that it was to come out, so it never did. Or the time was there
    by which the records were late that were to be repeated.
    """
    name = cluster.name("closing")
    closing = Closing(name)
    cluster.create(closing.numbers, closing.windows, closing.sessions)
    cluster.miss_soon(name)
    given, now_ms = 0, 1

    def run(*at: int) -> int:
        ended = forked_programs.run(_PROGRAM, cluster.address, name, tmp_path / "state", *at)
        assert ended.returncode in {0, -signal.SIGKILL}, ended.stderr
        return ended.returncode

    for step in range(1, _STEPS + 1):
        # The first goes into a window and a session that are there, the last closes them all.
        batch = []
        for ahead in (3, 3, 20, 50, 3, 20):
            now_ms += ahead
            batch.append(Record(f"key-{given % 2}", given, now_ms))
            batch.append(Record(f"key-{given % 2}", given + 1, now_ms))
            given += 2
        cluster.append(closing.numbers, batch)
        assert run(step) == -signal.SIGKILL
        assert run() == 0
    cluster.append(closing.numbers, [Record("key-0", given, now_ms + 1_000)])
    assert run() == 0

    for topic in (closing.windows, closing.sessions):
        found = {number for each in cluster.read(topic) for number in each.value}
        assert found == set(range(given))


@pytest.mark.spec("KFK-43")
@pytest.mark.parametrize("is_atomic", [True, False])
def test_what_a_session_was_goes_last(is_atomic: bool) -> None:
    """The first records may be all that a crash leaves, and the log is in the order of the ends."""
    written: list[bytes | None] = []
    writer: Any = SimpleNamespace(
        write=lambda place, key, value, *_: written.append(value),
        largest_bytes=1_000,
        markers=0,
        is_atomic=is_atomic,
    )
    specification = ss.Session("sessions", retention_ms=10)
    logged: Any = SimpleNamespace(
        changelog=TopicPartition("log", 0),
        frames=None,
        written=0,
        store=SimpleNamespace(specification=specification),
    )
    rows = [ChangelogRow(b"was", None, 1), ChangelogRow(b"is", b"all", 1)]

    TaskWriter(writer, {}, 0).append(logged, rows)

    assert written == ([None, b"all"] if is_atomic else [b"all", None])
