"""Stores on a real S3 server: faults on the way, kills, zombies and races."""

import json
import os
import random
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forked_programs import Forked
from s3 import SECRET, Bucket, FaultyProxy, Server
from s3_writer import INPUT, expected

import statestores as ss
from statestores.errors import (
    CommitInDoubtError,
    FencedError,
    InvalidArgumentError,
    StateStoreError,
    StorageError,
)
from statestores.object_log import ObjectChangelog, ObjectLog
from statestores.spi import Changes
from statestores.storage import Outcome
from statestores.verification import verify

_SOAK = os.environ.get("STATESTORES_SOAK") == "1"
KILLS = 150 if _SOAK else 3
KEYS = 7
ROWS = 2_000 if _SOAK else 60
RACES = 200 if _SOAK else 2
CHANCES = 10 if _SOAK else 1
"""Of each fault. With three lives for each of them, races and kills, a soak is 500 runs."""
_PROGRAM = Path(__file__).parent / "kit" / "s3_writer.py"

pytestmark = pytest.mark.timeout(3600 if _SOAK else 300)


def make(bucket: Bucket) -> ss.StateRoot:
    """Make a state root with the store ``counts``."""
    root = ss.StateRoot.create(bucket.root, storage_options=bucket.options)
    root.add_store(ss.KeyValue("counts"), partitions=1)
    return root


def open_counts(bucket: Bucket, directory: Path) -> Any:
    """Open the store with its engine in *directory*."""
    return ss.open_logged_store(
        bucket.root,
        "counts",
        0,
        directory=directory,
        backend="sqlite",
        storage_options=bucket.options,
    )


@contextmanager
def writer(
    bucket: Bucket, directory: Path, given: bytes | Connection = b"", **others: int
) -> Iterator[Forked]:
    """Run the program that counts, in a process of its own, with *given* as standard input."""
    options = {name: text for name, text in bucket.options.items() if isinstance(text, str)}
    options["client_options"] = bucket.options["client_options"]
    case = {
        "url": bucket.root,
        "options": options,
        "directory": str(directory),
        "rows": ROWS,
        "keys": KEYS,
        **others,
    }
    with Forked(_PROGRAM, json.dumps(case), given=given) as process:
        yield process
        process.kill()  # which ends one that is stopped as well


def check(bucket: Bucket, directory: Path, acknowledged: int) -> int:
    """Open the store in *directory*; return its position, to which it has counted exactly."""
    with open_counts(bucket, directory) as counts:
        position = counts.position.get(INPUT, -1)

        assert position >= acknowledged
        assert dict(counts.store.range()) == expected(position, KEYS)
        assert counts.committed_offset in {position, None}
    return int(position)


@pytest.mark.spec("OBJ-1", "OBJ-17", "OBJ-20")
def test_the_server_is_one_and_keeps_a_store(bucket: Bucket, tmp_path: Path) -> None:
    """The verbs of the seam do what they say, and a store goes on from them alone."""
    storage = bucket.storage()
    assert storage.create("a/b", b"1") is Outcome.DONE
    assert storage.create("a/b", b"2") is Outcome.REFUSED
    found: Any = storage.read("a/b")
    assert found.data == b"1"
    assert storage.replace("a/b", b"2", found.tag) is Outcome.DONE
    assert storage.replace("a/b", b"3", found.tag) is Outcome.REFUSED
    assert storage.replace("a/c", b"3", found.tag) is not Outcome.DONE
    assert storage.read("a/c") is None
    assert storage.read_many(["a/b", "a/c"]) == [storage.read("a/b"), None]
    assert [(each.name, each.size) for each in storage.list("a/")] == [("a/b", 1)]
    storage.delete("a/b")
    storage.delete("a/b")
    assert list(storage.list("a/")) == []
    make(bucket)
    with open_counts(bucket, tmp_path / "a") as counts:
        counts.store.put(b"a", b"1")
        counts.commit({INPUT: 0})
    with open_counts(bucket, tmp_path / "b") as counts:
        assert dict(counts.store.range()) == {b"a": b"1"}
    findings = list(verify(bucket.root, storage_options=bucket.options))
    assert [each for each in findings if each.is_failure] == []
    assert findings
    with pytest.raises(InvalidArgumentError, match="storage_options are for the URL"):
        verify(tmp_path, storage_options=bucket.options)


@pytest.mark.long
@pytest.mark.spec("OBJ-5", "OBJ-7")
def test_a_way_that_fails_now_and_then(
    server: Server, proxy: FaultyProxy, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Puts that happened and were denied, answers that were lost or ended early: each row once."""
    for fault in ("refuse", "forget", "hang up", "slow", "truncate"):
        for number in range(CHANCES):
            with subtests.test(fault, number=number):
                place = tmp_path / fault / str(number)
                fail_now_and_then(server.bucket(), proxy, place, fault, number)


def fail_now_and_then(
    bucket: Bucket, proxy: FaultyProxy, tmp_path: Path, fault: str, seed: int
) -> None:
    """Count in three lives while one request in four goes wrong."""
    make(bucket)
    chance = random.Random(f"{fault} {seed}")
    done, said = 0, []
    for life in range(3):
        proxy.fault = lambda method, path: fault if chance.random() < 0.25 else None
        try:
            with open_counts(bucket.through(proxy), tmp_path / str(life % 2)) as counts:
                done = counts.position.get(INPUT, -1) + 1
                for number in range(done, done + 8):
                    key = b"%d" % (number % KEYS)
                    counts.store.put(key, b"%d" % (int(counts.store.get(key) or b"0") + 1))
                    counts.commit({INPUT: number})
                    done = number + 1
        except StorageError as error:  # doubts among it
            said.append(str(error))
        if life == 1:
            try:
                ss.StateRoot.open(
                    bucket.root, storage_options=bucket.through(proxy).options
                ).object_log("counts").compact()
            except StateStoreError as error:
                said.append(str(error))
        assert check(bucket, tmp_path / "checked", done - 1) >= done - 1
    assert done > 0, said
    assert SECRET not in "".join(said)


@pytest.mark.spec("OBJ-21")
def test_a_refusal_shows_no_credentials(bucket: Bucket, proxy: FaultyProxy) -> None:
    """Neither in the message nor in what it was caused by."""
    make(bucket)
    proxy.fault = lambda method, path: "refuse"
    with pytest.raises(StorageError, match="credentials") as refused:
        ss.StateRoot.open(bucket.root, storage_options=bucket.through(proxy).options)
    for error in (refused.value, refused.value.__cause__, refused.value.__context__):
        assert SECRET not in repr(error)
    assert refused.value.__cause__ is None


@pytest.mark.spec("OBJ-56")
def test_a_listing_that_ends_early_is_made_again(bucket: Bucket, proxy: FaultyProxy) -> None:
    """A page that ended early, of a listing of any number of them, failed whoever listed.

    A snapshot, a vacuum, a reshard and an opening gave up, where a read of an object that ends
    early was made again. Now a listing is, and has each name once; one that never ends whole is an
    error, and not a short list.
    """
    storage, names = bucket.storage(), [f"a/{number}" for number in range(7)]
    for name in names:
        storage.create(name, b"")
    listing = bucket.through(proxy).storage()
    proxy.keys_per_page = 3
    cut: list[str] = []

    def third_page(method: str, path: str) -> str | None:
        cut.append(path)
        return "truncate" if len(cut) == 3 else None

    proxy.fault = third_page
    assert [each.name for each in listing.list("a/")] == names
    assert len(cut) == 6
    proxy.fault = lambda method, path: "truncate" if "continuation" in path else None
    with pytest.raises(StorageError, match="cannot list 'a/'"):
        list(listing.list("a/"))
    answers = iter(("truncate",))
    proxy.fault = lambda method, path: next(answers, None)
    listing.delete(names[0])
    assert [each.name for each in storage.list("a/")] == names[1:]


@pytest.mark.spec("OBJ-55", "OBJ-21")
def test_a_put_without_the_right_to_it_says_so(
    bucket: Bucket, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials that only read were told that the object store does not answer.

    It had, each time, with 403; and what it quotes of a request was shown where the credentials
    came from the environment: of those nobody knew that they are secrets. And the put was repeated
    for seven seconds, as if rights came by waiting.
    """
    waits: list[float] = []
    monkeypatch.setattr("statestores.object_log.driver.time", SimpleNamespace(sleep=waits.append))
    make(bucket)
    proxy.fault = lambda method, path: "deny" if method == "PUT" else None
    options = dict(bucket.through(proxy).options)
    for name in ("access_key_id", "secret_access_key"):
        monkeypatch.setenv(f"AWS_{name.upper()}", options.pop(name))
    root = ss.StateRoot.open(bucket.root, storage_options=options)
    log = root.object_log("counts")
    for call in (
        partial(log.release, 0),
        log.vacuum,
        partial(root.add_store, ss.KeyValue("b"), partitions=1),
    ):
        with pytest.raises(CommitInDoubtError) as refused:
            call()
        assert "403 Forbidden" in str(refused.value)
        assert str(refused.value).endswith("check the network, the credentials and their rights")
        assert not re.search(f"{SECRET}|test-key-id|a-token", str(refused.value))
    assert waits == []
    assert list(log.view([0]).parts) == [0]


@pytest.mark.spec("OBJ-24")
def test_what_a_commit_costs(bucket: Bucket, proxy: FaultyProxy, tmp_path: Path) -> None:
    """One put and one read that finds nothing new; opening reads what came since the checkpoint."""
    root = make(bucket)
    through = bucket.through(proxy)
    with open_counts(through, tmp_path / "a") as counts:
        proxy.requests.clear()
        for number in range(5):
            counts.store.put(b"a", b"%d" % number)
            counts.commit({INPUT: number})
        assert [method for method, _ in proxy.requests] == ["PUT"] * 5
        assert all("/own/0/" in path for method, path in proxy.requests if method == "PUT")
    root.object_log("counts").fold()
    proxy.requests.clear()
    with open_counts(through, tmp_path / "b") as counts:
        assert counts.restored.changelog_rows == 5
        assert sum(method == "PUT" for method, _ in proxy.requests) == 1  # the grant
        assert len(proxy.requests) <= 12
        proxy.requests.clear()
    assert sum(method == "PUT" for method, _ in proxy.requests) == 2  # a seal, and nobody's grant
    assert len(proxy.requests) <= 10


@pytest.mark.spec("OBJ-5", "OBJ-20", "LGS-6")
def test_killed_and_opened_elsewhere(bucket: Bucket, tmp_path: Path) -> None:
    """A machine and its disk are lost in the middle of commits: nothing else is, or is twice."""
    make(bucket)
    chance = random.Random(20_261_123)
    acknowledged = -1
    for kill in range(KILLS):
        directory = tmp_path / f"machine{kill % 3}"
        if kill % 2:
            shutil.rmtree(directory, ignore_errors=True)
        with writer(bucket, directory) as process:
            assert int(process.stdout.readline()) >= acknowledged + 1
            for _ in range(chance.randint(1, 6)):
                line = process.stdout.readline()
                acknowledged = int(line) if line else acknowledged
            process.kill()
            for line in process.stdout:  # what it had said before it died
                acknowledged = int(line)
        if kill % 2:
            ss.StateRoot.open(bucket.root, storage_options=bucket.options).object_log(
                "counts"
            ).compact()
        acknowledged = check(bucket, tmp_path / f"reader{kill % 2}", acknowledged)
    assert acknowledged > 0


@pytest.mark.spec("OBJ-10", "OBJ-11")
def test_a_sleeper_is_fenced(bucket: Bucket, tmp_path: Path) -> None:
    """A process that was stopped, taken for dead, and goes on later, writes nothing that counts.

    It is stopped between two requests: the server of the tests has one thread, and half a request
    would stop that as well.
    """
    make(bucket)
    waits, alarm = Pipe(duplex=False)
    with waits, alarm, writer(bucket, tmp_path / "a", waits, waits_at=3) as sleeper:
        while sleeper.stdout.readline() != "waits\n":
            assert sleeper.is_running()
        os.kill(sleeper.process, signal.SIGSTOP)
        position = check(bucket, tmp_path / "b", 2)
        os.kill(sleeper.process, signal.SIGCONT)
        os.write(alarm.fileno(), b"go on\n")

        assert sleeper.stdout.read().split() == ["fenced"]
    assert check(bucket, tmp_path / "c", position) == position == 2


@pytest.mark.spec("OBJ-10", "OBJ-11", "OBJ-9")
def test_owners_that_race(bucket: Bucket) -> None:
    """Many take the same partition and append: each append counts once, or its owner was told."""
    root = make(bucket)
    for race in range(RACES):
        acknowledged: list[bytes] = []
        denied: list[bytes] = []
        log: ObjectLog = root.object_log("counts")
        before = log.reader(0).end_offset

        def drive(driver: int, race: int = race, log: ObjectLog = log) -> None:
            for turn in range(2):
                try:
                    owner = ObjectChangelog.take_over(log.reader(0))
                except FencedError:
                    continue
                for number in range(3):
                    key = b"%d.%d.%d.%d" % (race, driver, turn, number)
                    try:
                        owner.append(Changes([key], [b""]))
                    except FencedError:
                        denied.append(key)  # noqa: B023  # the threads end within the race
                        break
                    acknowledged.append(key)  # noqa: B023
                if driver == 0:
                    log.fold()

        threads = [threading.Thread(target=drive, args=(driver,)) for driver in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keys = [key for frame in log.reader(0).read(before) for key in frame.changes.keys]
        assert sorted(keys) == sorted(acknowledged)
        assert not set(keys) & set(denied)
        assert len(acknowledged) > 3
