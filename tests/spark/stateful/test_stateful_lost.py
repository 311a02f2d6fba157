"""What of a state root has gone, or is older than the rest, while its query goes on; without Spark.

The query is in sequence, as behind ``foreachBatch``, or a user's own, which may leave some out. Its
checkpoint goes on behind the newest micro-batch, or gives that one again.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import statestores as ss
from statestores import failpoints
from statestores.changelog import change_schema
from statestores.errors import StateStoreError, StoreCorruptedError, StoreMismatchError
from statestores.files.directory_lock import LOCK_FILE
from statestores.partitioning import murmur2_partitioner
from statestores.spark import OpenStores
from statestores.spark.given_root import GivenRoot
from statestores.spark.hash_placement import Placement
from statestores.spark.local_copy import CopyOptions
from statestores.spark.source.publishing import publish_rows, stage_rows
from statestores.spark.source.write_plan import WritePlan
from statestores.spark.stateful_functions.batches import MicroBatches
from statestores.spark.stateful_functions.micro_batch import MicroBatch
from statestores.spark.stateful_functions.plan import StatefulPlan, add_stores
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.staging.write_intent import StreamBatch

_COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
_LAST = ss.KeyValue("last", key=ss.utf8, value=ss.int64)
_STORES = (_COUNTS, _LAST)
_WORDS = list("abcdefgh")
_QUERY = "5f0c1f5e-0000-0000-0000-000000000000"
_BATCHES = 4
"""The state after the second is what is put back into that after the third."""


def _count(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> None:
    for batch in batches:
        for word in batch["word"].to_pylist():
            stores["counts"].put(word, (stores["counts"].get(word) or 0) + 1)
            stores["last"].put(word, stores.batch)


def _plan(directory: Path) -> StatefulPlan:
    return StatefulPlan(
        place=GivenRoot(directory / "state"),
        name="counts",
        specifications=_STORES,
        partitions=2,
        key="word",
        function=_count,
        by="batches",
        schema=pa.schema([("word", pa.string())]),
        copies=CopyOptions(directory=str(directory / "local"), backend="sqlite"),
    )


def _placed() -> list[pa.RecordBatch]:
    """Return the rows of each partition, as the shuffle gives them to its task."""
    placement = Placement(specification=_COUNTS, partitions=2, key="word", keeps_nulls=False)
    (batch,) = placement.rows([pa.record_batch({"word": _WORDS})])
    chosen = [murmur2_partitioner.partition(word.encode(), 2) for word in _WORDS]
    return [batch.filter(pa.array([each == number for each in chosen])) for number in (0, 1)]


def _compute(task: StatefulTask) -> list[TaskResult]:
    return [
        TaskResult.from_json(row["result"])
        for rows in _placed()
        for batch in task.run([rows])
        for row in batch.to_pylist()
    ]


def _run(directory: Path, number: int, *, is_in_sequence: bool) -> None:
    """Compute and commit a micro-batch, if it is not committed."""
    plan = _plan(directory)
    add_stores(plan.place, _STORES, 2)
    batch = MicroBatch(query=_QUERY, number=number, is_in_sequence=is_in_sequence)
    MicroBatches(plan).run(batch, _compute)


def _content(directory: Path) -> dict[str, Counter[str]]:
    root = ss.StateRoot.open(directory / "state")
    found = {each.name: Counter[str]() for each in _STORES}
    for name, counter in found.items():
        for number in range(2):
            with ss.open_logged_store(root, name, number, backend="memory") as logged:
                counter.update(dict(logged.store.range()))
    return found


class _Copies:
    """The state after each micro-batch, and what it comes to when a copy was changed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        for number in range(_BATCHES):
            _run(directory / "live", number, is_in_sequence=True)
            shutil.copytree(directory / "live", directory / f"copy-{number}")
        self.older, self.newer = (directory / f"copy-{_BATCHES - each}" for each in (3, 2))

    def places(self) -> list[Path]:
        """Return all that can be put back or removed, but for the files of locks."""
        found = [self.newer / "state", *(self.newer / "state").rglob("*")]
        found += [self.newer / "local"]
        return [each.relative_to(self.newer) for each in found if each.name != LOCK_FILE]

    def outcome(
        self,
        number: int,
        *,
        is_in_sequence: bool,
        put_back: Iterable[Path],
        removed: Iterable[Path],
    ) -> str:
        """Return what comes of micro-batches from *number* on: an error, or what is other."""
        self._number += 1
        copy = self._directory / f"try-{self._number}"
        shutil.copytree(self.newer, copy)
        for place in (*put_back, *removed):
            shutil.rmtree(copy / place) if (copy / place).is_dir() else (copy / place).unlink()
        for place in put_back:
            if (self.older / place).is_dir():
                shutil.copytree(self.older / place, copy / place)
            elif (self.older / place).exists():
                shutil.copy2(self.older / place, copy / place)
        try:
            for each in range(number, _BATCHES):
                _run(copy, each, is_in_sequence=is_in_sequence)
            found = _content(copy)
        except StateStoreError as error:
            return f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(copy)
        expected = {"counts": dict.fromkeys(_WORDS, 4), "last": dict.fromkeys(_WORDS, 3)}
        other = [name for name, rows in expected.items() if found[name] != rows]
        return f"WRONG: {', '.join(other)}" if other else "equal"


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> _Copies:
    """Give a state after each of its micro-batches."""
    return _Copies(tmp_path_factory.mktemp("copies"))


@pytest.mark.spec("SPK-10")
@pytest.mark.parametrize("is_older", [True, False], ids=["older", "gone"])
@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("state", "one of them is an older copy or was replaced"),
        ("state/@stateful", "one of them is an older copy or was replaced"),
        ("state/counts", "'counts' (has neither its changes|ends before 0 in partition 0)"),
        ("state/counts/1", "'counts' ends before .* in partition 1, and the micro-batch 2 of"),
        ("state/last/0/changelog", "'last' ends before .* in partition 0, and the micro-batch 2"),
        ("state/last/.writes", "'last'|equal"),
        ("local", "equal"),
    ],
)
def test_a_state_that_is_older_than_its_checkpoint_is_refused(
    copies: _Copies, place: str, told: str, *, is_older: bool
) -> None:
    """One partition of a store came from the copy of the day before, or was lost.

    It was counted on. The whole root was told from the checkpoint's; of one store nobody looked.
    """
    where = [Path(place)]
    outcome = copies.outcome(
        _BATCHES - 1,
        is_in_sequence=True,
        put_back=where if is_older else (),
        removed=() if is_older else where,
    )

    assert re.search(told, outcome), outcome


@pytest.mark.spec("SPK-10")
def test_a_micro_batch_is_not_forgotten_for_an_older_copy(tmp_path: Path) -> None:
    """A driver had died before it was carried out, and then the store was an older copy.

    It was taken for one that another program had written to, so the micro-batch was forgotten, and
    the newest copy fitted no checkpoint any more.
    """
    for number in range(2):
        _run(tmp_path, number, is_in_sequence=True)
    shutil.copytree(tmp_path / "state" / "counts", tmp_path / "older")
    _run(tmp_path, 2, is_in_sequence=True)

    def fail() -> None:
        raise OSError("the driver dies")

    failpoints.arm("publish.checked", fail)
    try:
        with pytest.raises(OSError, match="the driver dies"):
            _run(tmp_path, 3, is_in_sequence=True)
    finally:
        failpoints.disarm()
    (tmp_path / "state" / "counts").rename(tmp_path / "newest")
    shutil.copytree(tmp_path / "older", tmp_path / "state" / "counts")
    with pytest.raises(StoreCorruptedError, match="'counts' ends before 8"):
        _run(tmp_path, 3, is_in_sequence=True)
    shutil.rmtree(tmp_path / "state" / "counts")
    (tmp_path / "newest").rename(tmp_path / "state" / "counts")
    _run(tmp_path, 3, is_in_sequence=True)

    assert _content(tmp_path)["counts"] == dict.fromkeys(_WORDS, 4)


@pytest.mark.spec("SPK-10", "SPK-11")
def test_a_micro_batch_of_another_moment_is_refused(tmp_path: Path) -> None:
    """A streaming write went on from a checkpoint of the day before, with new rows.

    Its micro-batches had numbers that the store had, so they were taken for repetitions, and the
    rows were dropped without a word. The last one may come again. Where the whole state was put
    back from an older copy, the query went on as well, and two micro-batches were gone.
    """
    plan = WritePlan(
        root=GivenRoot(tmp_path / "state"),
        specification=_COUNTS,
        partitions=1,
        raw=False,
        skipped=False,
        commit_timeout_ms=0,
    )

    def write(number: int, count: int) -> None:
        row = {"key": b"a", "value": ss.int64.encode(count)}
        rows = pa.RecordBatch.from_pylist([row], schema=change_schema(_COUNTS.kind))
        staged = stage_rows(plan, f"q-{number}", f"a-{count}", [rows])
        batch = StreamBatch(stream="q", number=number)
        publish_rows(plan, f"q-{number}", [staged], overwrite=False, batch=batch)

    for number in range(3):
        write(number, number)
    write(2, 2)
    with pytest.raises(StoreMismatchError, match=r"micro-batch 2 of the query 'q', .* with 1"):
        write(1, 3)
    with pytest.raises(StoreMismatchError, match=r"micro-batch 2 of the query 'q', .* with 4: the"):
        write(4, 4)

    with ss.open_logged_store(tmp_path / "state", _COUNTS, backend="memory") as logged:
        assert (logged.store.get("a"), logged.changelog.end_offset) == (2, 3)


@pytest.mark.soak
@pytest.mark.spec("SPK-10")
def test_whatever_of_a_root_is_lost_or_older_is_refused_or_comes_back(copies: _Copies) -> None:
    """Each file and directory; only who may leave out micro-batches cannot tell a whole root."""
    outcomes = {}
    for number in (_BATCHES - 1, _BATCHES - 2):
        for is_in_sequence in (True, False):
            for place in copies.places():
                if place == Path("state") and not is_in_sequence:
                    continue
                for is_older in (True, False):
                    outcomes[number, is_in_sequence, str(place), is_older] = copies.outcome(
                        number,
                        is_in_sequence=is_in_sequence,
                        put_back=[place] if is_older else [],
                        removed=[] if is_older else [place],
                    )

    assert {key: told for key, told in outcomes.items() if told.startswith("WRONG")} == {}
