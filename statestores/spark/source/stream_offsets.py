"""How far a streaming query has read: an offset for each partition, as JSON in its checkpoint.

``{"0": {"offset": 41, "completeFrom": 0, "store": "counts"}}``: the next change to read of
partition 0 is 41. Where a compaction had dropped changes before the query began, it has agreed to
read what was left; ``completeFrom`` says up to where. What is dropped later, before it is read, is
a loss. An offset means something in the changelogs of its ``store`` only. Checkpoints that were
written before it was named are those of whichever store the query reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError
from statestores.reading.visible_log import LogBeginning


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far one partition has been read."""

    offset: int
    """The next change to read."""

    complete_from: int
    """Up to where changes may be missing without anybody having been promised them."""

    def is_lost(self, beginning: LogBeginning) -> bool:
        """Return whether changes that were still to be read are gone."""
        return (
            beginning.offset > self.offset
            or max(self.offset, self.complete_from) < beginning.complete_from
        )


class StreamOffsets(dict[int, StreamOffset]):
    """How far all partitions have been read."""

    @classmethod
    def from_json(cls, content: Mapping[str, Any], store: str) -> Self:
        """Read what Spark hands back from a checkpoint, for a query that reads *store*.

        Raises:
            InvalidArgumentError: It is something else: the checkpoint of another source, or of a
                query that has read another store.
        """
        try:
            found = cls(
                {
                    int(number): StreamOffset(each["offset"], each["completeFrom"])
                    for number, each in content.items()
                }
            )
            named = {each.get("store", store) for each in content.values()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"the checkpoint has the offset {content!r}, which is not one of a state store; "
                "give each query a checkpoint of its own"
            ) from error
        if others := named - {store}:
            raise InvalidArgumentError(
                f"the checkpoint says how far the store {others.pop()!r} has been read, and the "
                f"query reads {store!r}; give each query a checkpoint of its own, and leave its "
                "sources and their order as they were"
            )
        return found

    def to_json(self, store: str) -> dict[str, dict[str, int | str]]:
        """Return what goes into the checkpoint; the same offsets of *store* give the same text."""
        return {
            str(number): {
                "offset": each.offset,
                "completeFrom": each.complete_from,
                "store": store,
            }
            for number, each in sorted(self.items())
        }


def limited(
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    max_records: int | None,
    max_bytes: int | None,
    change_bytes: Mapping[int, float],
) -> dict[int, int]:
    """Return up to where to read in one micro-batch: *ends*, or as far as the limits allow.

    Each partition gets a share in proportion to what it has, so that none is left behind. At least
    one change is taken where there is one, however large it is.
    """
    lags = {number: max(0, ends[number] - start) for number, start in starts.items()}
    shares = lags
    if max_bytes is not None:
        total = sum(lag * change_bytes[number] for number, lag in lags.items())
        if total > max_bytes:
            shares = _shared(lags, max(1, int(sum(lags.values()) * max_bytes / total)))
    if max_records is not None and sum(shares.values()) > max_records:
        shares = _shared(lags, max_records)
    return {number: start + shares[number] for number, start in starts.items()}


def _shared(lags: Mapping[int, int], budget: int) -> dict[int, int]:
    """Return a share of *budget* for each of *lags*, of which the sum is at least as much."""
    total = sum(lags.values())
    shares = {number: budget * lag // total for number, lag in lags.items()}
    left = budget - sum(shares.values())
    for number in sorted(lags, key=lambda each: lags[each] - shares[each], reverse=True):
        if left and shares[number] < lags[number]:
            shares[number] += 1
            left -= 1
    return shares


def check_order(number: int, start: int, end: int) -> None:
    """Accept an end of partition *number* that is not before what has been read already.

    Raises:
        OffsetOutOfRangeError: It is: the changelog is not the one that the query has read.
    """
    if end < start:
        raise OffsetOutOfRangeError(
            f"the query has read partition {number} up to offset {start}, and it ends at {end}: "
            "its changelog has been replaced; start the query anew, with another checkpoint"
        )
