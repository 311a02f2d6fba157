"""At door two: the processes of a store that is not ours get killed, fork, and open it twice.

Over an engine, `crash_tests` and the tests of engines ask the same.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from statestores.errors import FencedError, StoreLockedError
from statestores_conformance.faults.crash import run_kills
from statestores_conformance.intensity import seed, trials
from statestores_conformance.subjects.openers import StampedByFunction, name_of, options_of
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import CHANGELOG, KEYS, Stores, StoreUnderTest

_KILLS = trials(10, least=2)
_SOAK_KILLS = 100
_SEED = seed(1035)
_PATIENCE_SECONDS = 120.0

_FORK = """
import json, os, sys
from pathlib import Path
from statestores.errors import StoreClosedError
from statestores_conformance.faults.crash_child import open_store
from statestores_conformance.faults.crash_workload import CHANGELOG, WORKLOADS

name, options, path, kind = json.loads(sys.argv[1])
workload = WORKLOADS[kind](1)
store = open_store(name, options, Path(path), workload)
facade = store.read_only()
workload.write(store, 0)
store.commit({CHANGELOG: 0})
workload.write(store, 1)
calls = {
    "put": lambda: workload.write(store, 2),
    "commit": lambda: store.commit({CHANGELOG: 2}),
    "rollback": lambda: store.rollback(),
    "truncate": lambda: store.truncate(),
    "offsets": lambda: store.committed_offsets(),
    "facade": lambda: facade.committed_offset(CHANGELOG),
}
child = os.fork()
if child == 0:
    answers = {"is_open": store.is_open}
    for call, use in calls.items():
        try:
            answers[call] = repr(use())
        except StoreClosedError:
            answers[call] = "refused"
    store.close()
    print(json.dumps(answers), flush=True)
    sys.exit(0)
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)
store.commit({CHANGELOG: 1})
store.close()
workload.model_up_to(1)
with open_store(name, options, Path(path), workload) as again:
    found = [again.committed_offset(CHANGELOG), list(workload.differences(again))]
    print(json.dumps(found), flush=True)
"""
"""A program whose child uses what its parent has open and ends; then the parent goes on."""


@pytest.mark.level("crash-proof")
class StoreCrashTests(StoreFixtures):
    """Beside the tests of its kind, for a persistent store at door two.

    ::

        class TestRedis(KeyValueStoreTests):
            TestCrashes = StoreCrashTests

    Other processes open it, so its function must be importable: the function itself, or a
    ``functools.partial`` of it with ``options=``.
    """

    @pytest.fixture
    def importable(self, persistent_stores: Stores) -> tuple[str, dict[str, Any]]:
        """Give the name of the function that opens the stores, and its options."""
        opener = persistent_stores.opener
        if isinstance(opener, StampedByFunction):
            opener = opener.func
        name = name_of(getattr(opener, "func", opener))
        assert name is not None, f"{opener!r} has no name by which another process finds it"
        return name, options_of(opener)

    @pytest.mark.spec("COM-2", "COM-22", "COM-10")
    def test_a_killed_process_leaves_exactly_a_commit(
        self, stores: Stores, importable: tuple[str, dict[str, Any]], tmp_path: Path
    ) -> None:
        """Killed at any moment: content, offset and position are of one commit, the last one."""
        self._kill(stores, importable, tmp_path, _KILLS)

    @pytest.mark.soak
    @pytest.mark.spec("COM-2", "COM-22", "COM-10")
    def test_many_killed_processes_leave_exactly_a_commit(
        self, stores: Stores, importable: tuple[str, dict[str, Any]], tmp_path: Path
    ) -> None:
        """The same, long enough to meet the rare moments."""
        self._kill(stores, importable, tmp_path, _SOAK_KILLS)

    @staticmethod
    def _kill(
        stores: Stores, importable: tuple[str, dict[str, Any]], root: Path, kills: int
    ) -> None:
        name, options = importable
        report = run_kills(name, kills, _SEED, kind=stores.kind, root=root, options=options)

        assert report.violations == []
        assert len(report.kills) == kills

    @pytest.mark.spec("COM-44", "ASM-9")
    def test_a_forked_child_lets_go_of_the_store(
        self, stores: Stores, importable: tuple[str, dict[str, Any]], tmp_path: Path
    ) -> None:
        """It is closed in the child, facades too; the parent commits what was pending."""
        name, options = importable
        arguments = json.dumps([name, options, str(tmp_path / "forked"), stores.kind])
        ended = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", _FORK, arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
        answers, code, found = (json.loads(line) for line in ended.stdout.splitlines())

        assert answers.pop("is_open") is False
        assert set(answers.values()) == {"refused"}
        assert (code, found) == (0, [1, []])
        assert ended.returncode == 0, ended.stderr

    @pytest.mark.spec("COM-49")
    def test_a_store_has_one_owner(self, persistent_stores: Stores) -> None:
        """A second opening is refused, or takes the store over: then the first commits nothing."""
        first = persistent_stores.open()
        first.write(KEYS[0], 1)
        first.store.commit({CHANGELOG: 1})
        first.write(KEYS[1], 2)
        owner = self._commit_twice(first, persistent_stores)
        owner.store.close()
        first.store.close()
        reopened = persistent_stores.open()

        assert reopened.store.committed_offset(CHANGELOG) == 2
        assert set(reopened.latest()) == set(KEYS[:2])

    @staticmethod
    def _commit_twice(first: StoreUnderTest, stores: Stores) -> StoreUnderTest:
        """Have whoever owns the store in the end commit *first*'s pending write; return it."""
        try:
            second = stores.open()
        except StoreLockedError:
            first.store.commit({CHANGELOG: 2})
            return first
        with pytest.raises(FencedError):
            first.store.commit({CHANGELOG: 9})
        second.write(KEYS[1], 2)
        second.store.commit({CHANGELOG: 2})
        return second
