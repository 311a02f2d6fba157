"""Copies of stores in an object store, and their service: nobody is fenced, nothing is stale."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plain_http
import pytest
from s3 import Bucket, FaultyProxy

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    StorageError,
    StoreClosedError,
    StoreMismatchError,
)
from statestores.resharding import reshard
from statestores.serving import FollowedRoot
from statestores.serving.answers import Answers
from statestores.serving.limits import Deadline
from statestores.serving.query import Query
from statestores.tasks import Standby, open_standby
from statestores.tasks.copying import object_source
from statestores.tasks.copying.copy_source import copy_source
from statestores.tasks.copying.object_source import SteadyObjectChangelog

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
WORDS = ss.TopicPartition("words", 0)


def make(bucket: Bucket) -> ss.StateRoot:
    """Make a state root with the store ``counts``."""
    root = ss.StateRoot.create(bucket.root, storage_options=bucket.options)
    root.add_store(COUNTS, partitions=1)
    return root


def owner_of(root: ss.StateRoot, directory: Path) -> Any:
    """Take the only partition of ``counts``."""
    return ss.open_logged_store(root, "counts", 0, directory=directory, backend="sqlite")


def put(counts: Any, number: int, key: str = "tea") -> None:
    """Commit one count."""
    counts.store.put(key, number)
    counts.commit({WORDS: number})


def count(answers: Answers, *, include_stale: bool = False) -> int | None:
    """Return the count of tea, as it would be served."""
    query = Query(store="counts", read="get", key=b"tea", include_stale=include_stale)
    _, rows = answers.rows(query, Deadline(10_000))
    found: list[Any] = list(rows)
    return None if not found else ss.int64.decode(found[0][1])


def content(standby: Standby) -> dict[str, int]:
    """Return what a copy holds."""
    store: Any = standby.read_only(include_stale=True)
    return dict(store.range())


@pytest.mark.spec("STB-2", "STB-5")
@pytest.mark.parametrize(
    ("end", "begin", "committed", "up_to"),
    [
        (0, 0, None, None),  # nobody has written
        (5, 0, None, 4),
        (5, 3, 1, 4),  # the change at offset 2 has gone
        (5, 3, 2, None),
        (1, 0, None, 0),
    ],
)
def test_a_copy_loads_a_snapshot_of_what_it_has_seen_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
    end: int,
    begin: int,
    committed: int | None,
    up_to: int | None,
) -> None:
    """One that is newer does not fit to that; and none where the log has what it lacks."""
    asked: list[int] = []

    def newest_valid(to_offset: int) -> Any:
        asked.append(to_offset)
        return SimpleNamespace(snapshot="found")

    monkeypatch.setattr(
        object_source, "ObjectSnapshots", lambda **_: SimpleNamespace(newest_valid=newest_valid)
    )
    log: Any = SimpleNamespace(store="counts")
    view: Any = SimpleNamespace(
        parts=[SimpleNamespace(end=end, begin=begin)], checkpoint=SimpleNamespace(log="log")
    )
    store: Any = SimpleNamespace(committed_offset=lambda _: committed)
    found = object_source.ObjectSource(log, 0)._snapshot_for(store, view)

    assert (found, asked) == ((None, []) if up_to is None else ("found", [up_to]))


@pytest.mark.spec("OBJ-36")
def test_a_copy_remembers_what_it_has_seen_of_a_log(tmp_path: Path) -> None:
    """The next look reads what is new, and not all from the checkpoint on."""
    root = ss.StateRoot.create("memory://followed/remembered")
    root.add_store(COUNTS, partitions=1)
    with (
        owner_of(root, tmp_path / "owner") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="memory") as standby,
    ):
        put(counts, 1)
        assert standby.poll() == 1
        source: Any = standby._source

        assert source._seen is not None


@pytest.mark.spec("OBJ-36", "SRV-19")
def test_reads_have_every_commit_and_the_owner_goes_on(
    bucket: Bucket, proxy: FaultyProxy, tmp_path: Path
) -> None:
    """Where the object store does not answer, a read says so; only a stale one is answered."""
    root = make(bucket)
    through = bucket.through(proxy)
    followed_state = ss.StateRoot.open(through.root, storage_options=through.options)
    with (
        owner_of(root, tmp_path / "owner") as counts,
        FollowedRoot(followed_state, backend="memory", follow_interval_s=3600) as followed,
    ):
        answers = Answers(followed)
        for number in range(4):
            put(counts, number)

            assert count(answers) == number
            if number == 1:
                root.object_log("counts").fold()
            if number == 2:
                root.object_log("counts").compact()
        assert followed.waiting() == ()
        assert followed.topology() is None
        _, batches = followed.changes("counts", 0, 3)
        assert [row for batch in batches for row in batch.to_pylist()]
        put(counts, 4)
        proxy.fault = lambda method, path: "refuse"
        with pytest.raises(StorageError):
            count(answers)
        assert count(answers, include_stale=True) == 3
        assert {method for method, _ in proxy.requests} == {"GET"}


@pytest.mark.spec("OBJ-36", "STB-2")
def test_a_new_copy_of_a_compacted_log_is_not_read_before_it_has_one_commit(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """It has nothing, and the store does not begin with nothing any more: no commit is empty."""
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "o", backend="memory"
    ) as counts:
        for number in range(2):
            put(counts, number)
        root.object_log("counts").compact()
        with open_standby(root, "counts", 0, tmp_path / "copy", backend="memory") as copy:
            with pytest.raises(InvalidStateStoreError):
                copy.read_only(include_stale=True)
            copy.poll()

            assert content(copy) == {"tea": 1}


@pytest.mark.spec("OBJ-36", "STB-2")
@pytest.mark.parametrize("way", ["before", "while it is read"])
def test_a_copy_stands_at_a_commit_also_after_a_compaction(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """What compaction has left of the way to a commit is none, so no read sees the middle of it."""
    log = root.object_log("counts")
    with (
        ss.open_logged_store(
            root, "counts", 0, directory=tmp_path / "o", backend="memory"
        ) as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy,
    ):
        put(counts, 0)
        assert copy.poll() == 1
        put(counts, 1, "milk")
        put(counts, 2)

        def compact() -> None:
            put(counts, 3, "milk")
            log.compact()

        if way == "before":
            compact()
            assert copy.lag.offset_lag == 3
        else:
            view, views = type(log).view, []

            def look(*arguments: Any) -> Any:
                views.append(view(*arguments))
                if len(views) == 1:
                    compact()
                return views[-1]

            assert copy.lag.offset_lag == 2  # seen, and what it was is forgotten
            monkeypatch.setattr(type(log), "view", look)
        copy.poll()

        assert content(copy) == dict(counts.store.range()) == {"tea": 2, "milk": 3}
        put(counts, 4)
        assert copy.poll() == 1
        put(counts, 5)  # it still is the owner


@pytest.mark.spec("OBJ-36", "STB-5")
def test_a_copy_reads_on_when_nothing_but_a_compaction_came_between(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """A standby that had looked at a log that was folded, and was compacted before it read it.

    It raised `OffsetOutOfRangeError`, and did so at each poll until somebody had committed and
    folded again: it went on from what it had seen, whose segments were gone.
    """
    log = root.object_log("counts")
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "o", backend="memory"
    ) as counts:
        put(counts, 0)
        put(counts, 1)
    log.fold()
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        assert copy.lag.offset_lag == 2
        log.compact()

        assert copy.poll() == 1
        assert content(copy) == {"tea": 1}


@pytest.mark.spec("OBJ-36", "OBJ-18")
def test_a_copy_goes_on_and_one_of_another_log_is_refused(
    bucket: Bucket, server: Any, tmp_path: Path
) -> None:
    """An offset says nothing about which log it is of."""
    root, other = make(bucket), make(server.bucket())
    with owner_of(root, tmp_path / "owner") as counts:
        put(counts, 0)
        for expected in (1, 0):
            with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
                assert copy.poll() == expected
                assert content(copy) == {"tea": 0}
        with pytest.raises(StoreMismatchError, match="another directory"):
            open_standby(other, "counts", 0, tmp_path / "copy", backend="sqlite")


@pytest.mark.soak
@pytest.mark.spec("OBJ-36", "SRV-19")
def test_an_owner_that_is_killed_and_taken_over_is_followed(
    bucket: Bucket, tmp_path: Path, write: Callable[..., Any]
) -> None:
    """`statestores serve URL` answers with what was acknowledged before the kill, and after it."""
    make(bucket)
    given = bucket.options
    environment = {
        "AWS_ENDPOINT": given["endpoint"],
        "AWS_ACCESS_KEY_ID": given["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": given["secret_access_key"],
        "AWS_REGION": given["region"],
        "AWS_ALLOW_HTTP": "true",
    }
    program = [sys.executable, "-m", "statestores.cli", "serve", bucket.root, "--port", "0"]
    with subprocess.Popen(
        [*program, "--backend", "memory", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as serving:
        try:
            assert serving.stdout is not None
            told = json.loads("".join(iter(serving.stdout.readline, "}\n")) + "}")

            def served() -> Any:
                answer = plain_http.get(f"{told['url']}/v1/stores/counts/value?key=tea", timeout=30)
                return answer.json()["rows"][0]["value"]

            with write(bucket, tmp_path / "first") as owner:
                acknowledged = [int(owner.stdout.readline()) for _ in range(3)][-1]

                assert served() >= acknowledged
                owner.kill()
                acknowledged = max([acknowledged, *map(int, owner.stdout)])
            assert served() >= acknowledged
            with owner_of(
                ss.StateRoot.open(bucket.root, storage_options=given), tmp_path / "next"
            ) as counts:
                put(counts, 1_000_000)
                assert served() == 1_000_000
            serving.send_signal(signal.SIGTERM)
            assert serving.wait(60) == 0
        finally:
            serving.kill()


_WRITER = """
import json, sys
import statestores as ss
url, options, directory = json.loads(sys.argv[1])
words = ss.TopicPartition("words", 0)
with ss.open_logged_store(
    url, "counts", 0, directory=directory, backend="sqlite", storage_options=options
) as counts:
    for number in range(100_000):
        counts.store.put("tea", number)
        counts.commit({words: number})
        print(number, flush=True)
"""


@pytest.fixture
def write() -> Callable[..., Any]:
    """Return what counts in a process of its own, until it is killed."""

    def start(bucket: Bucket, directory: Path) -> Any:
        options = {name: bucket.options[name] for name in bucket.options if name != "retry_config"}
        case = json.dumps([bucket.root, options, str(directory)])
        return subprocess.Popen(
            [sys.executable, "-c", _WRITER, case], stdout=subprocess.PIPE, text=True
        )

    return start


@pytest.mark.spec("OBJ-36")
def test_what_was_seen_of_a_log_is_read_between_offsets(bucket: Bucket, tmp_path: Path) -> None:
    """As of any changelog: from one of them, and up to one."""
    root = make(bucket)
    with owner_of(root, tmp_path / "owner") as counts:
        for number in range(4):
            put(counts, number)
    log = root.object_log("counts")
    steady = SteadyObjectChangelog(log, log.view([0]), 0, lambda: None)

    assert [frame.last_offset for frame in steady.read()] == [0, 1, 2, 3]
    assert [frame.last_offset for frame in steady.read(1, 3)] == [1, 2]
    assert steady.end_offset == 4
    assert steady.position == {WORDS: 3}
    steady.close()
    with pytest.raises(StoreClosedError, match="open another one"):
        _ = steady.end_offset


@pytest.mark.spec("OBJ-36", "STB-2")
def test_a_copy_with_a_part_of_a_snapshot_cannot_be_read(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Its process died while it loaded one; what it has is no commit of the store."""
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "o", backend="memory"
    ) as counts:
        put(counts, 0)
        counts.snapshot()

    def fail() -> None:
        raise OSError(5, "Input/output error")

    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        assert content(copy) == {}
        failpoints.arm("restore.loaded", fail)
        try:
            with pytest.raises(OSError, match="Input/output"):
                copy.poll()
        finally:
            failpoints.disarm()
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        with pytest.raises(InvalidStateStoreError, match="is loading"):
            content(copy)
        assert copy.poll() == 1
        assert content(copy) == {"tea": 0}


@pytest.mark.spec("OBJ-36", "STB-2")
def test_a_copy_stands_where_a_reshard_has_begun_the_log(
    root: ss.StateRoot, url: str, tmp_path: Path
) -> None:
    """It has loaded what the log begins with, and takes that once: facades of it stay."""
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "o", backend="memory"
    ) as counts:
        put(counts, 0)
    reshard(root, "counts", 1)
    resharded = ss.StateRoot.open(url)
    with open_standby(resharded, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        assert copy.poll() == 1
        store: Any = copy.read_only(include_stale=True)
        assert copy.poll() == 0
        assert store.get("tea") == 0
        assert copy.lag.offset_lag == 0


def test_a_copy_is_of_a_partition_that_the_store_has(root: ss.StateRoot) -> None:
    """An object store has names for any other one, of which nobody ever puts an object."""
    with pytest.raises(InvalidArgumentError, match="partition"):
        copy_source(root, "counts", 9)
