"""The data files of a snapshot in an object store.

An object is read whole and checked once, and kept: in memory, or where that would be too much in a
temporary file without a name. Of a range of keys only the parts that hold them are read.
"""

import mmap
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import google_crc32c
import pyarrow as pa

from statestores.arrow.snapshots.files import SnapshotFiles, check_size, check_sum, missing
from statestores.arrow.snapshots.manifest import MANIFEST_NAME, BatchPlace, FileEntry
from statestores.storage import Found, ObjectStorage

KEPT_BYTES = 64 * 1024 * 1024
"""Bytes of objects that are kept in memory, so that what was checked is not read twice; more are
kept on the local disk."""

_MOST_AT_ONCE_BYTES = 16 * 1024 * 1024


class ObjectFiles(SnapshotFiles):
    """The objects of one snapshot."""

    def __init__(self, storage: ObjectStorage, directory: str, sizes: Mapping[str, int]) -> None:
        """Read those below *directory* in *storage*, of which a listing gave the *sizes*."""
        self._storage = storage
        self._directory = directory
        self._sizes = sizes
        self._kept: dict[str, bytes | mmap.mmap] = {}
        self._in_memory = 0

    @property
    def place(self) -> str:
        return f"{self._storage.url}/{self._directory}"

    def is_there(self) -> bool:
        return self._storage.read(f"{self._directory}/{MANIFEST_NAME}") is not None

    def check_size(self, entry: FileEntry) -> None:
        size = self._sizes.get(entry.name)
        if size is None:
            raise missing(self.shown(entry.name))
        check_size(size, entry.bytes, self.shown(entry.name))

    def check_sum(self, entry: FileEntry) -> None:
        self._whole(entry)

    @contextmanager
    def open(self, entry: FileEntry) -> Iterator[pa.NativeFile]:
        yield pa.BufferReader(self._whole(entry))

    def messages(
        self, entry: FileEntry, places: Sequence[tuple[int, BatchPlace]]
    ) -> Iterator[tuple[int, pa.Buffer]]:
        self.check_size(entry)
        for together in _together(places):
            start = together[0][1].at
            stop = together[-1][1].at + together[-1][1].bytes
            data = self._part(entry, start, stop)
            for number, place in together:
                yield number, data.slice(place.at - start, place.bytes)

    def _part(self, entry: FileEntry, start: int, stop: int) -> pa.Buffer:
        """Return the bytes of a file from *start* up to *stop*."""
        kept = self._kept.get(entry.name)
        if kept is not None:
            return pa.py_buffer(kept).slice(start, stop - start)
        name = f"{self._directory}/{entry.name}"
        found = self._storage.read_range(name, start, stop - start)
        if found is None:
            raise missing(self.shown(entry.name))
        check_size(entry.bytes - (stop - start) + len(found), entry.bytes, self.shown(entry.name))
        return pa.py_buffer(found)

    def _whole(self, entry: FileEntry) -> bytes | mmap.mmap:
        """Return the bytes of a file, which are what *entry* says."""
        kept = self._kept.get(entry.name)
        if kept is not None:
            return kept
        self.check_size(entry)
        found = self._storage.read(f"{self._directory}/{entry.name}")
        shown = self.shown(entry.name)
        if not isinstance(found, Found):
            raise missing(shown)
        check_size(len(found.data), entry.bytes, shown)
        computed: int = google_crc32c.value(found.data)
        check_sum(computed, entry.crc32c, shown)
        if self._in_memory + len(found.data) <= KEPT_BYTES:
            self._in_memory += len(found.data)
            self._kept[entry.name] = found.data
        else:
            with suppress(OSError):  # where there is no room, it is read again
                self._kept[entry.name] = _on_disk(found.data)
        return found.data


def _on_disk(data: bytes) -> mmap.mmap:
    """Return *data* as they are in a file that is gone when nobody has them any more."""
    with tempfile.TemporaryFile(prefix="statestores-") as file:
        file.write(data)
        file.flush()
        return mmap.mmap(file.fileno(), len(data), access=mmap.ACCESS_READ)


def _together(
    places: Sequence[tuple[int, BatchPlace]],
) -> Iterator[list[tuple[int, BatchPlace]]]:
    """Yield *places* in parts that follow each other in the file, none of them too large."""
    part: list[tuple[int, BatchPlace]] = []
    for each in places:
        place = each[1]
        if part:
            first, last = part[0][1], part[-1][1]
            is_next = place.at == last.at + last.bytes
            if not is_next or place.at + place.bytes - first.at > _MOST_AT_ONCE_BYTES:
                yield part
                part = []
        part.append(each)
    if part:
        yield part
