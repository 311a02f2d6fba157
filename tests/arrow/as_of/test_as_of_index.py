"""History in memory that answers as a store does."""

from typing import Any

import pyarrow as pa
import pytest

from statestores.arrow import AsOfIndex, join_as_of
from statestores.arrow.as_of.index import _joined
from statestores.errors import InvalidArgumentError, SerializationError
from statestores_conformance.many_cases import for_each

HISTORY = {
    "key": ["b", "a", "b", "a"],
    "value": [None, 1, 20, 2],
    "valid_from": [200, 100, 100, 150],
    "valid_to": [None, 150, 200, None],
}


def ask(index: AsOfIndex, keys: list[Any], times: list[int]) -> list[Any]:
    batch = pa.table({"key": keys, "at": times})
    values: list[Any] = join_as_of(index, batch, on="key", at="at")["value"].to_pylist()
    return values


@pytest.mark.parametrize("leave_out", [[], ["valid_to"]], ids=["ends", "starts only"])
def test_rows_may_come_in_any_order(leave_out: list[str]) -> None:
    """Ends that are not given follow from the starts."""
    rows = pa.table(HISTORY).drop_columns(leave_out)

    found = ask(
        AsOfIndex.from_rows(rows), ["a", "a", "a", "b", "b", "b"], [99, 149, 150, 100, 199, 200]
    )

    assert found == [None, 1, 2, 20, 20, None]


@pytest.mark.parametrize("leave_out", [[], ["valid_to"]], ids=["ends", "starts only"])
def test_the_latest_version_of_each_key_has_no_end(leave_out: list[str]) -> None:
    """Of the last key as well, however ends are known."""
    history = {**HISTORY, "value": [10, 1, 20, 2]}
    index = AsOfIndex.from_rows(pa.table(history).drop_columns(leave_out), horizon_ms=500)

    found = index.find(pa.array(["a", "b", "b"]), pa.array([400, 400, 150]))

    assert found.values.to_pylist() == [2, 10, None]
    assert found.valid_to.to_pylist() == [None, None, None]


def test_rows_may_have_any_layout() -> None:
    """Dictionaries, and 64-bit offsets as a large table has them: the answer is a plain column."""
    columns: dict[str, Any] = {**HISTORY, "value": [None, "1", "20", "2"]}
    plain = AsOfIndex.from_rows(pa.table(columns))
    for name in ("key", "value"):
        text = pa.array(columns[name], pa.large_string())
        for layout in (text, pa.array(columns[name]).dictionary_encode()):
            index = AsOfIndex.from_rows(pa.table({**columns, name: layout}))
            asked = index.encode_keys(pa.array(["a", "b", "b"])), pa.array([150, 150, 200])

            assert index.find(*asked).values == plain.find(*asked).values
            assert index.find(*asked).values.type == pa.string()


def test_gaps_are_gaps() -> None:
    """A reader of partitions leaves deletions out: what ended is not valid any more."""
    rows = pa.table(
        {"key": ["a", "a"], "value": [1, 3], "valid_from": [100, 300], "valid_to": [200, None]}
    )

    for ordered in (rows, rows.take([1, 0])):
        assert ask(AsOfIndex.from_rows(ordered), ["a"] * 3, [199, 200, 300]) == [1, None, 3]


def test_before_the_horizon_only_the_latest_is_found() -> None:
    """As in a store (VRS-9)."""
    index = AsOfIndex.from_rows(pa.table(HISTORY), horizon_ms=155)

    assert ask(index, ["a", "a", "b", "b"], [149, 152, 150, 155]) == [None, 2, None, 20]


def test_batches_are_taken_as_they_come() -> None:
    """From any iterator; its size is known."""
    table = pa.table(HISTORY)
    index = AsOfIndex.from_rows(iter(table.to_batches(max_chunksize=1)))

    (whole,) = table.to_batches()

    assert (len(index), ask(index, ["a"], [150])) == (4, [2])
    assert ask(AsOfIndex.from_rows(whole), ["a"], [150]) == [2]


def test_no_rows_answer_nothing() -> None:
    """An empty table has the types."""
    index = AsOfIndex.from_rows(pa.table(HISTORY).slice(0, 0))

    assert ask(index, ["a"], [150]) == [None]


def test_keys_of_another_width_are_the_same() -> None:
    """Numbers and text in every layout; anything else is another type."""
    rows = pa.table({"key": [1, 2], "value": ["x", "y"], "valid_from": [0, 0]})
    index = AsOfIndex.from_rows(rows)

    narrow = pa.table({"key": pa.array([2], pa.int8()), "at": [1]})
    assert join_as_of(index, narrow, on="key", at="at")["value"].to_pylist() == ["y"]
    with pytest.raises(InvalidArgumentError, match="'key' of the type string"):
        ask(index, ["1"], [1])


def test_keys_of_any_type_are_looked_up_as_they_are() -> None:
    """Days, say: what has no other layout or width is taken as it comes."""
    days = pa.array([19_000, 19_001], pa.date32())
    rows = pa.table({"key": days, "value": [1, 2], "valid_from": [0, 0]})
    index = AsOfIndex.from_rows(rows)
    batch = pa.table({"key": days, "at": [5, 5]})

    assert join_as_of(index, batch, on="key", at="at")["value"].to_pylist() == [1, 2]
    with pytest.raises(SerializationError, match="the keys are date32"):
        index.encode_keys(pa.array([19_000]))


def test_numbers_that_no_key_can_be_are_refused() -> None:
    """A key that does not fit into those of the index is an error, and not another key."""
    rows = pa.table({"key": pa.array([1], pa.int8()), "value": ["x"], "valid_from": [0]})
    index = AsOfIndex.from_rows(rows)

    with pytest.raises(SerializationError, match="do not fit into int8"):
        index.encode_keys(pa.array([300]))


def test_a_question_without_a_time_finds_nothing() -> None:
    """Nor what is valid at the epoch."""
    rows = pa.table({"key": ["a", "b"], "value": [1, 2], "valid_from": [0, 0]})
    times = pa.array([0, None], pa.int64())

    found = AsOfIndex.from_rows(rows).find(pa.array(["a", "a"]), times)

    assert found.values.to_pylist() == [1, None]


def test_memory_counts_every_value_and_key() -> None:
    """What is said before a table is broadcast to each worker."""
    times = [1, 2, 3]
    small = pa.table({"key": ["a", "b", "c"], "value": ["", "", ""], "valid_from": times})
    large = pa.table(
        {"key": ["a" * 11, "b", "c"], "value": ["x" * 100, "", ""], "valid_from": times}
    )

    grown = AsOfIndex.from_rows(large).nbytes - AsOfIndex.from_rows(small).nbytes

    assert grown == 10 + 100
    # For each row a rank, a start, an end, a time, and whether it is the latest.
    assert AsOfIndex.from_rows(small).nbytes > 3 * (4 * 8 + 1)


@pytest.mark.parametrize(
    ("values", "wide"),
    [
        (pa.array([b"ab", b"c"]), pa.large_binary()),
        (pa.array(["ab", "c"]), pa.large_string()),
        (pa.array([1, 2]), pa.int64()),
    ],
    ids=["bytes", "text", "numbers"],
)
def test_columns_too_large_for_short_offsets_get_long_ones(
    monkeypatch: pytest.MonkeyPatch, values: pa.Array, wide: pa.DataType
) -> None:
    """Of 2 GiB and more, which would be an error of Arrow's; what has no offsets stays as it is."""
    column = pa.chunked_array([values, values])
    for limit, expected in ((column.nbytes, values.type), (column.nbytes - 1, wide)):
        monkeypatch.setattr("statestores.arrow.as_of.index._OFFSETS_OF_32_BITS", limit)

        joined = _joined(column)

        assert joined.type == expected
        assert joined.to_pylist() == column.to_pylist()


@for_each(
    ("rows", "told"),
    [
        ([], "no batches"),
        (pa.table({"key": ["a"], "value": [1]}), "no versions"),
        (pa.table({"key": ["a", None], "value": [1, 1], "valid_from": [1, 1]}), "'key' has nulls"),
        (pa.table({"key": ["a"], "value": [1], "valid_from": ["x"]}), "'valid_from'"),
        (pa.table({"key": ["a"], "value": [1], "valid_from": pa.nulls(1)}), "'valid_from'"),
        (pa.table({"key": ["a", "a"], "value": [1, 1], "valid_from": [1, 1]}), "two versions"),
        (pa.table({"key": [{"k": 1}], "value": [1], "valid_from": [1]}), "cannot be indexed"),
    ],
)
def test_what_is_no_history_is_refused(rows: Any, told: str) -> None:
    """With what it is that is wrong."""
    with pytest.raises(InvalidArgumentError, match=told):
        AsOfIndex.from_rows(rows)
