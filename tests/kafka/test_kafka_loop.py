"""The loops of docs/kafka-loop.md share a topic, die, and count each record once."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from kafka_cluster import TestCluster, wait_for

import statestores as ss
from statestores.processing import Record, Topic
from statestores.query import QueryableStores, key_value_store
from statestores.tasks import TaskId, TaskManager

_PAGE = Path(__file__).parents[2] / "docs" / "kafka-loop.md"
_ONCE, _PLAIN, _ASYNCIO = re.findall(
    r"^```py\n(.*?)^```$", _PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
)
_POLL = re.compile(r"poll\((timeout=)?0\.1\)")
_WORDS = ["tea", "milk", "tea", "bread", "salt", "milk", "tea", "rice", "oil"]


def _patient(program: str) -> str:
    """Return the program with far longer polls: it ends when it is killed."""
    changed, count = _POLL.subn(r"poll(\g<1>600)", program)
    assert count == 2
    return changed


class _Loops:
    """Programs of the page, over one state."""

    def __init__(self, cluster: TestCluster, directory: Path, topic: str) -> None:
        self.directory = directory
        self._environment = {
            **os.environ,
            "BOOTSTRAP": cluster.address,
            "STATE": str(directory / "state"),
            "TOPIC": topic,
        }

    def start(self, program: str, local: str) -> subprocess.Popen[bytes]:
        """Start a program; its errors are in a file named as its local directory."""
        with (self.directory / f"{local}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", program],
                env={**self._environment, "LOCAL": str(self.directory / local)},
                stdout=log,
                stderr=log,
            )

    def said(self) -> str:
        """Return what all of them have said."""
        return "".join(each.read_text("utf-8") for each in self.directory.glob("*.log"))


def test_both_loops_count_each_record_once(cluster: TestCluster, tmp_path: Path) -> None:
    """One is killed in between, and started again; both leave in order.

    The page's loops had a lone record wait for 499 others, or until the poll was over. So some of
    these have polls of ten minutes, and are waited for no longer than the others.
    """
    topic = Topic(cluster.name("loop"), key=ss.utf8, value=ss.int64, partitions=2)
    cluster.create(topic)
    cluster.miss_soon("counting")
    loops = _Loops(cluster, tmp_path, topic.name)
    assert loops.start(_ONCE, "once").wait(60) == 0, loops.said()
    given: Counter[str] = Counter()

    def give() -> None:
        cluster.append(topic, [Record(word, 1, 1 + at) for at, word in enumerate(_WORDS)])
        given.update(_WORDS)

    def committed() -> int:
        """Return how many records the group has committed."""
        return sum(cluster.committed("counting", topic).values())

    def both() -> set[str]:
        """Return the members of the group, once two have partitions."""
        found = cluster.members("counting")
        return found if len(found) == len(running) else set()

    with ExitStack() as stack:
        running = {
            name: loops.start(program, name)
            for name, program in (("plain", _patient(_PLAIN)), ("asyncio", _ASYNCIO))
        }
        stack.callback(lambda: list(map(subprocess.Popen.kill, running.values())))
        give()
        wait_for(lambda: committed() == given.total(), f"all words: {loops.said()}")
        before = wait_for(both, f"both as members: {loops.said()}")
        running["plain"].send_signal(signal.SIGKILL)
        running["plain"].wait()
        give()
        running["plain"] = loops.start(_PLAIN, "plain")
        # A new member beside the other hears signals, and the dead one may still be listed.
        wait_for(lambda: len(before & both()) == 1, f"a new member: {loops.said()}")
        wait_for(lambda: committed() == given.total(), f"all words: {loops.said()}")
        give()
        for each in running.values():
            each.terminate()
        assert [each.wait(60) for each in running.values()] == [0, 0], loops.said()
        give()
        last = loops.start(_patient(_ASYNCIO), "new")
        stack.callback(last.wait)
        stack.callback(last.kill)
        wait_for(lambda: committed() == given.total(), f"all words: {loops.said()}")

    groups = {0: ["counts"]}
    with TaskManager(tmp_path / "state", groups, local_directory=tmp_path / "read") as manager:
        manager.assign([TaskId(0, 0), TaskId(0, 1)])
        found = dict(QueryableStores(manager).store("counts", key_value_store()).range())

    assert found == given
