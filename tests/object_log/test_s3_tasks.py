"""Tasks on a real S3 server: killed at each step, and without answers."""

import json
import os
import random
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from forked_programs import run
from s3 import Bucket, FaultyProxy, Server
from task_writer import INPUT, NAMES

import statestores as ss
from statestores.errors import CommitConflictError, FencedError, StorageError
from statestores.tasks import Task, open_task

_SOAK = os.environ.get("STATESTORES_SOAK") == "1"
TURNS = 10 if _SOAK else 3
_PROGRAM = Path(__file__).parent / "kit" / "task_writer.py"
_STEPS = (
    ("task.recording", 1),
    ("task.recorded", 1),
    ("objects.append.before", 1),
    ("objects.append.settled", 1),
    ("logged.appended", 1),
    ("commit.apply.after", 1),
    ("objects.append.before", 2),
    ("logged.appended", 2),
    ("commit.apply.before", 2),
    ("task.carried-out", 1),
    ("task.forgotten", 1),
    ("task.noting", 1),
)


pytestmark = pytest.mark.timeout(3600 if _SOAK else 300)


def make(bucket: Bucket) -> ss.StateRoot:
    """Make a state root with two stores."""
    root = ss.StateRoot.create(bucket.root, storage_options=bucket.options)
    for name in NAMES:
        root.add_store(ss.KeyValue(name), partitions=1)
    return root


def opened(bucket: Bucket, directory: Path) -> Task:
    """Open the task with its engines in *directory*."""
    root = ss.StateRoot.open(bucket.root, storage_options=bucket.options)
    return open_task(root, "0_0", NAMES, local_directory=directory, backend="sqlite")


def killed(bucket: Bucket, directory: Path, failpoint: str, at: int, **others: Any) -> list[int]:
    """Let the program run until it is killed at *failpoint*; return what it has committed."""
    options = {name: text for name, text in bucket.options.items() if isinstance(text, str)}
    options["client_options"] = bucket.options["client_options"]
    case = {
        "url": bucket.root,
        "options": options,
        "directory": str(directory),
        "failpoint": failpoint,
        "at": at,
        **others,
    }
    child = run(_PROGRAM, json.dumps(case))
    assert child.returncode == -signal.SIGKILL, child.stderr
    return [int(line) for line in child.stdout.split()]


def check(bucket: Bucket, directory: Path, acknowledged: int) -> int:
    """Open the task in *directory*; return how many numbers both of its stores have seen."""
    with opened(bucket, directory) as task:
        reached = task.position.get(INPUT, -1)
        found = {task.logged_store(name).store.get(b"number") for name in NAMES}
        ends = {store.changelog.end_offset for store in task.stores.values()}

        assert reached >= acknowledged
        assert found == {b"%d" % reached if reached >= 0 else None}
        assert ends == {reached + 1}
    return reached


@pytest.mark.long
@pytest.mark.spec("TSK-18", "TSK-3", "TSK-17")
def test_a_kill_at_any_step_leaves_a_commit_of_all_stores(
    bucket: Bucket, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Killed at each step of a commit, and then of the opening that ends it, with no disk left."""
    make(bucket)
    storage = bucket.storage()
    reached = -1
    for failpoint, at in _STEPS:
        with subtests.test(failpoint, at=at):
            is_noting = failpoint == "task.noting"
            for each in list(storage.list("@tasks/0_0/written/")) if is_noting else ():
                storage.delete(each.name)
            done = killed(bucket, tmp_path / "a", failpoint, at, opening=is_noting)
            if failpoint == "logged.appended" and at == 1:
                shutil.rmtree(tmp_path / "a")
                killed(bucket, tmp_path / "a", "objects.append.settled", 1, opening=True)
            reached = check(bucket, tmp_path / "b", max(done, default=reached))


@pytest.mark.long
@pytest.mark.spec("TSK-18", "OBJ-5")
def test_commits_without_answers(
    server: Server, proxy: FaultyProxy, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Puts that happened and were denied, or whose answer was lost: each commit once, in both."""
    for fault in ("forget", "hang up"):
        with subtests.test(fault):
            write_without_answers(server.bucket(), proxy, tmp_path / fault, fault)


def write_without_answers(bucket: Bucket, proxy: FaultyProxy, directory: Path, fault: str) -> None:
    """Commit while one request in five goes wrong, in three lives; look at what there is."""
    make(bucket)
    chance = random.Random(fault)
    done = -1
    for life in range(3):
        proxy.fault = lambda method, path: fault if chance.random() < 0.2 else None
        try:
            with opened(bucket.through(proxy), directory / str(life % 2)) as task:
                for number in range(task.next_offset(INPUT), done + 5):
                    for name in NAMES:
                        task.logged_store(name).store.put(b"number", b"%d" % number)
                    task.commit({INPUT: number})
                    done = number
        except (StorageError, CommitConflictError):
            pass  # in doubt, or made and not ended: the next opening finds out
        done = check(bucket, directory / "checked", done)
    assert done > 0


@pytest.mark.long
@pytest.mark.spec("TSK-17", "TSK-18")
def test_owners_that_race(bucket: Bucket, tmp_path: Path) -> None:
    """Many take the task from each other at the same time: each commit is in both, or in none."""
    make(bucket)
    acknowledged: list[bytes] = []
    denied: list[bytes] = []

    def drive(driver: int) -> None:
        for turn in range(TURNS):
            try:
                task = opened(bucket, tmp_path / str(driver))
            except FencedError:
                continue
            for number in range(3):
                key = b"%d.%d.%d" % (driver, turn, number)
                for name in NAMES:
                    task.logged_store(name).store.put(key, b"")
                try:
                    task.commit({INPUT: task.next_offset(INPUT)})
                except FencedError:
                    denied.append(key)
                    break
                except CommitConflictError:
                    acknowledged.append(key)  # made, and carried out by who has fenced it
                    break
                acknowledged.append(key)
            task.close()

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(drive, range(3)))
    with opened(bucket, tmp_path / "last") as task:
        for name in NAMES:
            keys = [key for key, _ in task.logged_store(name).store.range()]

            assert keys == sorted(acknowledged)
        assert task.position == {INPUT: len(acknowledged) - 1}
    assert not set(denied) & set(acknowledged)
    assert acknowledged


@pytest.mark.spec("TSK-18")
def test_what_a_commit_of_several_stores_costs(
    bucket: Bucket, proxy: FaultyProxy, tmp_path: Path
) -> None:
    """One put of the record, one look at each store, one put of each store, and its removal."""
    make(bucket)
    with opened(bucket.through(proxy), tmp_path / "a") as task:
        for number in range(3):
            for name in NAMES:
                task.logged_store(name).store.put(b"number", b"%d" % number)
            proxy.requests.clear()
            task.commit({INPUT: number})
        methods = [method for method, _ in proxy.requests]

        assert methods[:3] == ["PUT", "GET", "GET"]
        assert methods[3:5] == ["PUT", "PUT"]
        assert len(methods) == 6
