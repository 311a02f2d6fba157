"""How far apart in time two records may be that a join of streams brings together."""

from statestores.errors import InvalidArgumentError
from statestores.processing.operators.stream_stream import JoinWindow
from statestores.processing.windows import check_duration


def within(
    difference_ms: int,
    *,
    before_ms: int | None = None,
    after_ms: int | None = None,
    grace_ms: int = 0,
) -> JoinWindow:
    """Join records that are at most *difference_ms* apart, inclusive.

    Args:
        difference_ms: How far apart, either way.
        before_ms: How much earlier the right record may be than the left one, if otherwise. It
            may be negative: then it has to be later by so much.
        after_ms: How much later it may be, if otherwise; negative likewise.
        grace_ms: How late a record may come.

    Raises:
        InvalidTypeError, InvalidArgumentError: A span is none, or none is left between the two.
    """
    check_duration("difference_ms", difference_ms)
    check_duration("grace_ms", grace_ms)
    before = difference_ms if before_ms is None else before_ms
    after = difference_ms if after_ms is None else after_ms
    if type(before) is not int or type(after) is not int or before + after < 0:
        raise InvalidArgumentError(
            f"before_ms and after_ms must be ints of milliseconds with a sum from 0, got "
            f"{before_ms!r} and {after_ms!r}"
        )
    return JoinWindow(before_ms=before, after_ms=after, grace_ms=grace_ms)
