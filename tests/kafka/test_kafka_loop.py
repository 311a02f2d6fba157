"""The loops of docs/kafka-loop.md share a topic, die, and count each record once."""

import os
import re
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from forked_programs import Forked
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

    def __init__(self, stack: ExitStack, cluster: TestCluster, directory: Path, topic: str) -> None:
        self._stack = stack
        self._directory = directory
        self._variables = {
            "BOOTSTRAP": cluster.address,
            "STATE": str(directory / "state"),
            "TOPIC": topic,
        }
        self._started: list[Forked] = []

    def start(self, program: str, local: str) -> Forked:
        """Start a program, with the local directory of that name; the stack waits for its end."""
        variables = {**self._variables, "LOCAL": str(self._directory / local)}
        first = f"import os, sys\nos.environ.update({variables!r})\nsys.stdout = sys.stderr\n"
        self._started.append(self._stack.enter_context(Forked(first + program)))
        return self._started[-1]

    def said(self) -> str:
        """Return what all of them have said."""
        return "".join(each.errors() for each in self._started)


def test_both_loops_count_each_record_once(cluster: TestCluster, tmp_path: Path) -> None:
    """One is killed in between, and started again; both leave in order.

    The page's loops had a lone record wait for 499 others, or until the poll was over. So some of
    these have polls of ten minutes, and are waited for no longer than the others.
    """
    topic = Topic(cluster.name("loop"), key=ss.utf8, value=ss.int64, partitions=2)
    cluster.create(topic)
    cluster.miss_soon("counting")
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
        loops = _Loops(stack, cluster, tmp_path, topic.name)
        assert loops.start(_ONCE, "once").wait() == 0, loops.said()
        running = {
            name: loops.start(program, name)
            for name, program in (("plain", _patient(_PLAIN)), ("asyncio", _ASYNCIO))
        }
        give()
        wait_for(lambda: committed() == given.total(), "all words", loops.said)
        before = wait_for(both, "both as members", loops.said)
        running["plain"].kill()
        assert running["plain"].wait() == -signal.SIGKILL
        give()
        running["plain"] = loops.start(_PLAIN, "plain")
        # A new member beside the other hears signals, and the dead one may still be listed.
        wait_for(lambda: len(before & both()) == 1, "a new member", loops.said)
        wait_for(lambda: committed() == given.total(), "all words", loops.said)
        give()
        for each in running.values():
            os.kill(each.process, signal.SIGTERM)
        assert [each.wait() for each in running.values()] == [0, 0], loops.said()
        give()
        last = loops.start(_patient(_ASYNCIO), "new")
        wait_for(lambda: committed() == given.total(), "all words", loops.said)
        last.kill()

    groups = {0: ["counts"]}
    with TaskManager(tmp_path / "state", groups, local_directory=tmp_path / "read") as manager:
        manager.assign([TaskId(0, 0), TaskId(0, 1)])
        found = dict(QueryableStores(manager).store("counts", key_value_store()).range())

    assert found == given
