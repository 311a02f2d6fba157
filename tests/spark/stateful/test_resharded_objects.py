"""A stateful operator whose stores in an object store get another number of partitions, in place.

Its tasks are run by this process.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from object_operator import COUNTS, LAST, WORDS, DriverDiesError, ObjectOperator, dying

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    CommitConflictError,
    InvalidArgumentError,
    StoreMismatchError,
    StoreReshardedError,
)
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.spark import OpenStores
from statestores.spark.given_root import GivenRoot
from statestores.spark.stateful_functions.operators import operator_batches
from statestores.spark.stateful_functions.plan import resolve_stores
from statestores.spi.specification import StoreSpecification
from statestores.verification import verify

_STEPS = ("reshard.routed", "reshard.built", "objects.reshard.announced", "objects.reshard.fenced")
"""Where a reshard is before the moment from which on it counts; its anchor needs no fence."""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


@pytest.fixture
def root(request: pytest.FixtureRequest) -> GivenRoot:
    """A state root in the memory of this process."""
    return GivenRoot(f"memory://resharded/{request.node.name}")


def started(root: GivenRoot, tmp_path: Path) -> ObjectOperator:
    """Return the operator as a query has it that is started now, without a number of partitions."""
    _, partitions = resolve_stores(root, [COUNTS, LAST], None)
    return ObjectOperator(root, tmp_path / "local", partitions)


def move(root: GivenRoot, partitions: int) -> None:
    """Reshard both stores."""
    for store in ("counts", "last"):
        reshard(root.open(), store, partitions)


@pytest.mark.spec("RSH-19", "RSH-21", "OBJ-44")
def test_it_goes_on_with_its_checkpoint_and_other_partitions(
    root: GivenRoot, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """The last micro-batch comes again with its rows, and the next ones are counted once."""
    first = ObjectOperator(root, tmp_path / "local")
    rows = first.run(0)
    with subtests.test("one store after the other"):
        reshard(root.open(), "counts", 3)
        with pytest.raises(StoreReshardedError, match=r"3 partitions, and had 2 .* call stateful"):
            first.run(1)
        with pytest.raises(StoreMismatchError, match=r"'counts': 3, 'last': 2.*reshard stores"):
            started(root, tmp_path)
        reshard(root.open(), "last", 3)
        with pytest.raises(StoreMismatchError, match=r"partitions is 2; leave partitions out"):
            resolve_stores(root, [COUNTS, LAST], 2)
        assert first.computed == 1
    with subtests.test("a query that is started anew"):
        second = started(root, tmp_path)
        assert second.run(0) == rows
        second.run(1)
        second.check(2)
        assert [each for each in verify(str(root.place)) if each.is_failure] == []
    with subtests.test("a driver that lives on, and comes to the number that it had"):
        life = operator_batches(second.plan)
        second.run(2, life=life)
        move(root, 1)
        move(root, 3)
        second.run(3, life=life)
        second.run(4)
        second.run(5, life=life)
        second.check(6)
    with subtests.test("when all is tidied up"):
        for store in ("counts", "last"):
            log = root.open().object_log(store)
            log.compact()
            log.vacuum(abandoned_after_ms=-60_000)
            left = [each for each in second.objects(f"{store}/generations/") if "/data/" in each]
            assert left == []
        move(root, 2)
        third = started(root, tmp_path / "another machine")
        third.run(6)
        third.check(7)
    with subtests.test("a copy in another object store begins with a new checkpoint"):
        copy = GivenRoot(f"{root.place}-copy")
        for store in ("counts", "last"):
            reshard(root.open(), store, 3, to=copy.place)
        moved = started(copy, tmp_path / "moved")
        with pytest.raises(StoreMismatchError, match="begin with a new checkpoint"):
            moved.run(7)
        moved.run(0, query="0a0a0a0a-0000-0000-0000-000000000000")
        assert moved.content(COUNTS) == dict.fromkeys(WORDS, 8)
        assert [each for each in verify(str(copy.place)) if each.is_failure] == []


@pytest.mark.spec("RSH-18", "RSH-21", "OBJ-51")
def test_a_micro_batch_while_a_store_is_resharded(
    root: GivenRoot, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Who comes first wins: nothing of the reshard is left then, and nothing of the micro-batch."""
    operator, number = ObjectOperator(root, tmp_path / "local"), 1
    operator.run(0)
    for store in ("counts", "last"):
        for step in _STEPS[: 3 if store == "counts" else 4]:
            with subtests.test(f"{store}: the query at {step}"):
                failpoints.arm(step, partial(operator.run, number), at=1)
                with pytest.raises(CommitConflictError):
                    reshard(root.open(), store, 3)
                failpoints.disarm()
                number += 1
                operator.check(number)
                assert operator.objects(f"{store}/generations/") == []
    for step in ("operator.staged", "operator.claimed"):
        for store in ("counts", "last"):
            with subtests.test(f"{store}: the reshard at {step}"):
                failpoints.arm(step, partial(reshard, root.open(), store, 3), at=1)
                with pytest.raises((StoreReshardedError, CommitConflictError)):
                    operator.run(number)
                failpoints.disarm()
                operator.check(number)
                reshard(root.open(), store, 2)
                operator.run(number)
                number += 1
                operator.check(number)
    for store in ("counts", "last"):
        with subtests.test(f"{store}: the reshard of a store when the other has half of it"):
            failpoints.arm("operator.committed", partial(reshard, root.open(), store, 3), at=1)
            with pytest.raises(InvalidArgumentError, match=r"'last' does not have yet.* stop it"):
                operator.run(number)
            failpoints.disarm()
            operator.run(number)
            number += 1
            operator.check(number)
    with subtests.test("a fence that a reshard has left"):
        seen: list[int] = []
        failpoints.arm("operator.claimed", partial(_left_fence, root, seen), at=1)
        with pytest.raises(CommitConflictError, match="about to get other partitions"):
            operator.run(number)
        assert seen == [1]
        failpoints.disarm()
        operator.run(number)
        operator.check(number + 1)


def _left_fence(root: GivenRoot, seen: list[int]) -> None:
    def die() -> None:
        seen.append(1)
        raise DriverDiesError

    failpoints.arm("objects.reshard.fenced", die, at=1)
    with pytest.raises(DriverDiesError):
        reshard(root.open(), "last", 3)


@pytest.mark.spec("RSH-13", "RSH-18", "RSH-21", "OBJ-51")
def test_a_reshard_may_die_at_any_step(
    root: GivenRoot, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """The query goes on with the old partitions or the new ones, and the next reshard does it."""
    operator, batches = ObjectOperator(root, tmp_path / "local"), 1
    operator.run(0)
    for store in ("counts", "last"):
        for step in (*_STEPS, "objects.reshard.ended"):
            if (store, step) == ("counts", "objects.reshard.fenced"):
                continue
            with subtests.test(f"{store} at {step}"):
                before, has_ended = root.open().store(store).partitions, step.endswith("ended")
                with dying(step):
                    reshard(root.open(), store, 5 - before)
                found = root.open().store(store).partitions
                assert found == (5 - before if has_ended else before)
                if has_ended:
                    reshard(root.open(), "last" if store == "counts" else "counts", found)
                started(root, tmp_path).run(batches)
                batches += 1
                started(root, tmp_path).check(batches)
    move(root, 4)
    last = started(root, tmp_path)
    last.run(batches)
    last.check(batches + 1)
    assert [each for each in verify(str(root.place)) if each.is_failure] == []


_KINDS: tuple[StoreSpecification[Any, Any], ...] = (
    ss.KeyValue("plain", key=ss.utf8, value=ss.int64),
    ss.TimestampedKeyValue("timed", key=ss.utf8, value=ss.int64, ttl_ms=3_000),
    ss.Versioned("versions", key=ss.utf8, value=ss.int64, history_retention_ms=10_000),
    ss.Window("windows", key=ss.utf8, value=ss.int64, retention_ms=3_000, window_size_ms=1_000),
    ss.Window(
        "joined",
        key=ss.utf8,
        value=ss.int64,
        retention_ms=3_000,
        window_size_ms=1_000,
        retain_duplicates=True,
    ),
    ss.Session("sessions", key=ss.utf8, value=ss.int64, retention_ms=3_000),
)


def _put_all(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.RecordBatch]:
    time_ms = stores.batch * 1_000
    for batch in batches:
        for word in batch["word"].to_pylist():
            before = stores["plain"].get(word) or 0
            stores["plain"].put(word, before + 1)
            for name in ("timed", "versions", "windows", "joined"):
                stores[name].put(word, before, time_ms)
            stores["sessions"].put(word, time_ms, time_ms + 500, before)
        yield pa.record_batch({"word": batch["word"], "luck": [0.5] * batch.num_rows})


@pytest.mark.spec("RSH-1", "RSH-3", "RSH-21")
def test_every_kind_of_store_is_what_it_would_have_been(tmp_path: Path) -> None:
    """Of two operators one has its stores resharded between its micro-batches, the other not."""
    shown: list[list[Any]] = []
    for name, counts in (("kept", [2] * 4), ("moved", [2, 3, 1, 2])):
        root, rows = GivenRoot(f"memory://resharded/kinds-{name}"), []
        for number, partitions in enumerate(counts):
            for each in _KINDS if number else ():
                reshard(root.open(), each.name, partitions)
            operator = ObjectOperator(root, tmp_path / name, partitions, (_KINDS, _put_all))
            operator.run(number)
            rows.append(_content(root))
        shown.append(rows)

    assert shown[0] == shown[1]
    assert all(rows[-1] for rows in shown[0][-1].values())


def _content(root: GivenRoot) -> dict[str, list[Any]]:
    """Return what readers see of every store, but for numbers that tell duplicates apart."""
    state, found = root.open(), dict[str, list[Any]]()
    for each in _KINDS:
        history = isinstance(each, ss.Versioned)
        readers = [
            PartitionReader(place_of(state, each.name, number), each)
            for number in range(state.store(each.name).partitions)
        ]
        rows = [
            tuple(value for name, value in row.items() if name != "sequence")
            for reader in readers
            for batch in reader.rows(history=history)
            for row in batch.to_pylist()
        ]
        found[each.name] = sorted(rows, key=repr)
    return found
