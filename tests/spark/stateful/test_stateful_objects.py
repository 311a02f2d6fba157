"""A stateful operator of two stores in an object store, its tasks run by this process."""

import base64
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from object_operator import COUNTS, LAST, WORDS, ObjectOperator, dying, results_of

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    CommitConflictError,
    InvalidArgumentError,
    StateStoreError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
    StoreReshardedError,
    UnsupportedFormatError,
)
from statestores.object_log.documents import pack_document
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.spark.given_root import GivenRoot
from statestores.spark.stateful_functions import task as task_module

_OTHER = "0a0a0a0a-0000-0000-0000-000000000000"
_GOLDEN = Path(__file__).parent / "golden" / "operator.json"
_STEPS = ("operator.staged", "operator.claimed", "operator.committed", "operator.carried-out")


@pytest.fixture
def operator(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectOperator:
    """An operator in the memory of this process."""
    return ObjectOperator(GivenRoot(f"memory://stateful/{request.node.name}"), tmp_path / "local")


@pytest.mark.spec("OBJ-43", "OBJ-44")
def test_a_driver_may_die_at_any_step(operator: ObjectOperator, subtests: pytest.Subtests) -> None:
    """Both stores have the micro-batch once; committed, it comes again with the same rows."""
    for number, step in enumerate(_STEPS):
        with subtests.test(step):
            computed = operator.computed
            with dying(step):
                operator.run(number)
            is_committed = step in {"operator.committed", "operator.carried-out"}
            assert len(operator.content(COUNTS)) == (len(WORDS) if number or is_committed else 0)
            rows = operator.run(number)
            assert sorted(row["word"] for row in rows) == WORDS
            assert operator.run(number) == rows
            assert operator.computed == computed + (1 if is_committed else 2)
            operator.check(number + 1)

    operator.run(len(_STEPS))
    assert len(operator.objects("@stateful/words/records/")) == 1
    assert len(operator.objects("@stateful/words/outputs/")) == 2


@pytest.mark.spec("OBJ-45")
def test_what_the_second_store_lacks_outlives_a_vacuum(operator: ObjectOperator) -> None:
    """A driver died when the first store had its micro-batch, and everything else was tidied up.

    What is staged for the second store is not named by an entry yet. It must neither be voided nor
    deleted; and what an attempt has left that failed goes, once a later record counts.
    """
    operator.run(0)
    with pytest.raises(CommitConflictError):
        operator.run(1, before_commit=partial(operator.run, 1))
    with dying("operator.committed"):
        operator.run(2)
    logs = [operator.root.object_log(store, 2) for store in (COUNTS, LAST)]
    begun = logs[1].begin_write("another")
    operator.write(LAST, "a")
    for log in logs:
        log.compact()
        log.vacuum(abandoned_after_ms=-60_000)
    assert operator.content(LAST) == {**dict.fromkeys(WORDS, 1), "a": 7}
    operator.run(2)
    operator.check(3)

    for log in logs:
        log.compact()
        log.vacuum(abandoned_after_ms=-60_000)
        assert operator.objects(f"{log.store}/data/") == []
    assert begun < logs[1].begin_write("another")
    operator.run(3)
    operator.check(4)


@pytest.mark.spec("RSH-12")
def test_half_a_micro_batch_is_not_copied_elsewhere(
    operator: ObjectOperator, tmp_path: Path
) -> None:
    """A driver died when the first store had its micro-batch, and the second one was resharded.

    The copy, in another root, lacked it for ever. Once the query was started, both can be copied.
    """
    url = str(operator.root.place)
    with dying("operator.committed"):
        operator.run(0)
    for store in ("counts", "last"):
        with pytest.raises(InvalidArgumentError, match=r"'words' has .* 'last' does not have yet"):
            reshard(url, store, 3, to=tmp_path / "copies")
    operator.run(0)
    for store in ("counts", "last"):
        reshard(url, store, 3, to=tmp_path / "copies")
    copies = ss.StateRoot.open(tmp_path / "copies")
    for each in (COUNTS, LAST):
        parts = [PartitionReader(copies.partition(each.name, n), each) for n in range(3)]

        assert sum(batch.num_rows for part in parts for batch in part.rows()) == len(WORDS)


@pytest.mark.spec("RSH-19")
def test_a_store_with_other_partitions_than_planned_is_noticed(operator: ObjectOperator) -> None:
    """It was resharded before its first micro-batch, which says that it is an operator's.

    Rows would be shuffled by the partitions from before. Nothing is computed, or put anywhere.
    """
    reshard(str(operator.root.place), "last", 3)
    with pytest.raises(StoreReshardedError, match=r"'last' .* has 3 partitions, and had 2 when"):
        operator.run(0)

    assert operator.computed == 0
    assert operator.objects("@stateful/") == []


@pytest.mark.spec("OBJ-44")
def test_what_others_write_meanwhile(
    operator: ObjectOperator, subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of the micro-batch counts, until its first store has it; then all of it does."""
    operator.run(0)
    for store in (COUNTS, LAST):
        with subtests.test(f"{store.name} while it is computed"):
            with pytest.raises(CommitConflictError, match=f"written to '{store.name}' while"):
                operator.run(1, before_commit=partial(operator.write, store, "other"))
            assert operator.content(COUNTS)["a"] == 1
    with subtests.test("a partition that has an owner"):
        directory = Path(operator.plan.copies.directory or "").with_name("owner")
        with (
            ss.open_logged_store(
                ss.StateRoot.open(str(operator.root.place)),
                "counts",
                0,
                directory=directory,
                backend="memory",
            ),
            pytest.raises(StoreLockedError, match="has an owner"),
        ):
            operator.run(1)
    with subtests.test("the second store when the first one has it"):
        failpoints.arm("operator.committed", partial(operator.write, LAST, "other"))
        try:
            operator.run(1)
        finally:
            failpoints.disarm()
        assert "another program has written to 'last' while" in caplog.text
    assert operator.content(COUNTS) == {**dict.fromkeys(WORDS, 2), "other": 7}
    assert operator.content(LAST) == {**dict.fromkeys(WORDS, 1), "other": 7}


@pytest.mark.spec("OBJ-43", "OBJ-44")
def test_drivers_and_tasks_that_are_there_twice(
    operator: ObjectOperator, subtests: pytest.Subtests
) -> None:
    """Of two drivers one commits, and gives what the other finds; of two attempts one counts."""
    with subtests.test("a driver that was thought dead"):
        quick: list[Any] = []

        def overtake() -> None:
            if not quick:
                quick.append([])
                quick[0] = operator.run(0)

        with pytest.raises(CommitConflictError, match=r"another (driver|program) has"):
            operator.run(0, before_commit=overtake)
        assert operator.run(0) == quick[0]
        operator.check(1)
    with subtests.test("attempts of tasks"):
        operator.run(1, compute=lambda task: [*results_of(task), *results_of(task)][2:])
        operator.check(2)
    with subtests.test("another query finishes what the first one has committed"):
        with dying("operator.committed"):
            operator.run(2)
        operator.run(0, query=_OTHER)
        assert operator.content(COUNTS) == dict.fromkeys(WORDS, 4)
        for number in (2, 3):
            with pytest.raises(StoreMismatchError, match=r"another query has used it|older copy"):
                operator.run(number)


@pytest.mark.spec("OBJ-2", "OBJ-3", "OBJ-43")
def test_the_golden_operator(operator: ObjectOperator) -> None:
    """What an earlier release has left: the second store lacks a micro-batch that is committed.

    It is carried out, and has the rows that it had. A record of a later release is refused.
    """
    storage = operator.root.objects
    for name in operator.objects(""):
        storage.delete(name)
    for name, data in json.loads(_GOLDEN.read_text()).items():
        storage.create(name, base64.b64decode(data))
    assert operator.content(COUNTS) == dict.fromkeys(WORDS, 2)
    assert operator.content(LAST) == dict.fromkeys(WORDS, 0)
    rows = operator.run(1)
    assert operator.computed == 0
    luck = {row["word"]: row["luck"] for row in rows}
    assert sorted(luck) == WORDS
    assert (luck["a"], luck["b"]) == (0.7691653097100256, 0.7317173886549115)
    operator.check(2)
    operator.run(2)
    operator.check(3)

    name = operator.objects("@stateful/words/records/")[0]
    storage.delete(name)
    storage.create(name, pack_document("micro-batch", {"format": 2}))
    with pytest.raises(UnsupportedFormatError, match="upgrade statestores"):
        operator.run(3)


@pytest.mark.spec("OBJ-38", "OBJ-44")
def test_tasks_write_snapshots(operator: ObjectOperator, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the log has become longer than the state; two stay, and a new machine begins there."""
    monkeypatch.setattr(task_module, "SNAPSHOT_CHANGES", 1)
    for number in range(5):
        operator.run(number)
    manifests = [each for each in operator.objects("counts/snapshots/") if "manifest" in each]
    assert len(manifests) == 2 * 2
    shutil.rmtree(operator.plan.copies.directory or "")
    operator.run(5)

    operator.check(6)


@pytest.mark.spec("OBJ-44")
def test_what_of_a_root_is_gone_or_older_is_refused(
    operator: ObjectOperator, subtests: pytest.Subtests
) -> None:
    """As in a directory (SPK-10): by name, and nothing is computed on top of it."""
    operator.run(0)
    operator.run(1)
    storage = operator.root.objects
    kept = {each.name: storage.read(each.name) for each in storage.list("")}
    computed = operator.computed
    for gone, error, told in (
        ("@stateful/words/", StateStoreError, "is gone"),
        ("@stateful/words/records/", StateStoreError, "records/.* is gone"),
        ("last/", StateStoreError, "last/checkpoint.* is gone"),
        ("counts/root/", StoreMismatchError, "goes on with 2"),
        ("last/root/", StoreCorruptedError, "'last' ends before 0 in partition 0"),
    ):
        with subtests.test(gone):
            for name in operator.objects(gone):
                storage.delete(name)
            with pytest.raises(error, match=told):
                operator.run(2)
            for name, found in kept.items():
                if name.startswith(gone):
                    storage.create(name, found.data)  # type: ignore[union-attr]  # it was read
    assert operator.computed == computed
    operator.run(2)
    operator.check(3)
