"""A partition's keys shared out among readers where no snapshot says how they lie.

Some changes are looked at here and there in the log. Any borders are right, since each reader
selects its keys from the whole log; these make the shares about even in changes.
"""

from itertools import pairwise

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.snapshots.key_splits import between
from statestores.changelog import FrameKind
from statestores.reading.visible_log import VisibleLog

_PLACES = 16
"""Places of the log that are looked at. In an object store each may be the read of a segment."""

_CHANGES_AT_PLACE = 1024


def log_shares(
    log: VisibleLog, stop: int, keys: KeySelection, *, count: int | None, rows: int | None
) -> list[KeySelection]:
    """Return *keys* in parts that follow each other, each with about as many changes before *stop*.

    As many as *count* says, or as are needed for *rows* changes each; fewer, where the changes that
    are looked at have fewer keys, and one for keys that are named one by one.

    Raises:
        OffsetOutOfRangeError, ChangelogCorruptedError, StorageError: The log cannot be read.
    """
    if (count is None and rows is None) or keys.points is not None:
        return [keys]
    start = log.first_offset()
    wanted = -(-(stop - start) // rows) if count is None and rows is not None else count or 1
    found = sorted(_some_keys(log, start, stop, keys))
    borders: list[bytes] = []
    highest = found[0] if found else b""
    for number in range(1, wanted):
        border = found[len(found) * number // wanted] if found else b""
        if border > highest:
            borders.append(border)
            highest = border
    return between(keys, borders)


def _some_keys(log: VisibleLog, start: int, stop: int, keys: KeySelection) -> list[bytes]:
    """Return those of *keys* that some changes from *start* up to *stop* are of."""
    found: list[bytes] = []
    places = max(1, min(_PLACES, stop - start))
    edges = [start + (stop - start) * number // places for number in range(places + 1)]
    for at, following in pairwise(edges):
        for frame in log.frames(at, min(at + _CHANGES_AT_PLACE, following)):
            if frame.kind is not FrameKind.CLEAR:
                found += keys.filter(frame.batch).column("key").to_pylist()
    return found
