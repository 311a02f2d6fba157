"""A partition's keys shared out among readers, by what the manifest of its snapshot says.

Any borders are right: each reader selects its keys from snapshot and changelog alike. These make
the shares even, and fall where record batches begin, so that hardly any batch is read twice.
"""

from collections.abc import Sequence
from itertools import pairwise

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.snapshots.manifest import Manifest, batches_of

ROWS_PER_SHARE = 4_000_000
"""Rows of a snapshot that one reader takes where nobody says how many: a second or two. Half as
many cost a sixth more time on as many cores as there are partitions."""

BYTES_PER_SHARE = 256 * 1024 * 1024
"""Bytes on disk that one reader takes, however few rows they are."""


def key_shares(
    manifest: Manifest,
    keys: KeySelection,
    *,
    count: int | None = None,
    rows: int | None = None,
) -> list[KeySelection]:
    """Return *keys* in parts that follow each other, each with about as many rows of the snapshot.

    As many as *count* says, or as are needed for *rows* each, or for `ROWS_PER_SHARE` and
    `BYTES_PER_SHARE`; but never more than there are record batches to read.
    """
    sizes: list[tuple[bytes, int]] = []
    size = 0
    for entry in manifest.files:
        for number in batches_of(entry, keys):
            batch = entry.batches[number]
            sizes.append((batch.first_key, batch.rows))
            size += entry.bytes * batch.rows // entry.rows
    total = sum(each for _, each in sizes)
    if count is None and rows is not None:
        count = -(-total // rows)
    elif count is None:
        count = max(-(-total // ROWS_PER_SHARE), -(-size // BYTES_PER_SHARE))
    borders: list[bytes] = []
    before = 0
    for first_key, each in sizes:
        due = (len(borders) + 1) * total
        if before * count >= due and first_key > (borders[-1] if borders else b""):
            borders.append(first_key)
        before += each
    return between(keys, borders)


def between(keys: KeySelection, borders: Sequence[bytes]) -> list[KeySelection]:
    """Return *keys* in parts that *borders*, which ascend, are between; without empty ones."""
    edges = [None, *borders, None]
    shares = [keys.both(KeySelection(first=first, stop=stop)) for first, stop in pairwise(edges)]
    return [share for share in shares if not share.nothing] or [keys]
