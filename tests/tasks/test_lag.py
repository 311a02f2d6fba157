"""Task names, lags and offset sums: small rules with sharp edges."""

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.tasks import (
    LATEST_OFFSET,
    OFFSET_UNKNOWN,
    UNKNOWN_OFFSET_SUM,
    LagInfo,
    TaskId,
    task_offset_sum,
)
from statestores_conformance.many_cases import for_each


@pytest.mark.spec("TSK-8")
@for_each(
    ("offsets", "expected"),
    [
        ([], None),
        ([0], 0),
        ([3, 4], 7),
        ([3, OFFSET_UNKNOWN, 4], 7),
        ([OFFSET_UNKNOWN], 0),
        ([3, LATEST_OFFSET, 4], LATEST_OFFSET),
        ([(1 << 63) - 1, 1], (1 << 63) - 1),
    ],
)
def test_an_offset_sum_knows_the_sentinels(offsets: list[int], expected: int | None) -> None:
    """Latest wins, unknown adds nothing, and the sum does not overflow."""
    assert task_offset_sum(offsets) == expected


@pytest.mark.spec("TSK-8")
def test_other_negative_offsets_are_refused() -> None:
    """A sum is never made of what nobody understands."""
    with pytest.raises(InvalidArgumentError, match="from 0"):
        task_offset_sum([1, UNKNOWN_OFFSET_SUM])
    with pytest.raises(InvalidTypeError):
        task_offset_sum([True])


@pytest.mark.spec("TSK-7")
def test_lag_is_never_negative() -> None:
    """A store that has more than was seen of the changelog is not behind."""
    assert LagInfo(3, 10).offset_lag == 7
    assert LagInfo(10, 3).offset_lag == 0


def test_a_task_is_written_as_kafka_writes_it() -> None:
    """Text and task are the same thing, and nothing else is a task."""
    assert str(TaskId(0, 3)) == "0_3"
    assert TaskId.parse("12_34") == TaskId(12, 34)
    for text in ("", "0", "0-3", "-1_3", "0_3_4", "٣_0", "0_99999999999"):
        with pytest.raises(InvalidArgumentError, match="group"):
            TaskId.parse(text)
    with pytest.raises(InvalidArgumentError, match=r"from 0 to 2\*\*31 - 1, got 2147483648"):
        TaskId.parse("0_2147483648")
    with pytest.raises(InvalidArgumentError):
        TaskId(0, -1)
    with pytest.raises(InvalidTypeError):
        TaskId(0, True)  # noqa: FBT003  # on purpose
