"""How far each store and output of a task was at its last commit (TSK-16).

A store that was put back from an older copy looks like one that had nothing to write since. So
beside the directory of the task's commits there is a file that says where each changelog ended. It
has two pages, which are written in turn, without waiting for the disk: whatever a crash leaves of
them, the newest page that is whole says less than what is there, or just that, and never more.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c

from statestores.arrow.file_access import reporting
from statestores.errors import StoreCorruptedError, UnsupportedFormatError
from statestores.files.strict_json import Fields, parse_object
from statestores.logged_store import LoggedStore
from statestores.spi.durability import Durability
from statestores.tasks.task_id import TaskId

ENDS_SUFFIX = ".ends"
"""What the name of the file has behind that of the task. It lies beside the task's directory and
not in it, so that who loses one of them has the other."""

_FORMAT = 1
_PAGE_BYTES = 2_048
_encode = json.JSONEncoder(separators=(",", ":")).encode
_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """What one page says."""

    sequence: int
    """How many pages were written before it."""

    ends: Mapping[str, int] = field(default_factory=dict)
    """Where the changelog of each store ended."""

    outputs: Mapping[str, int] = field(default_factory=dict)
    """What the task's outputs had reached, in their own words."""

    boot: str | None = None
    """Since which start of the machine it holds; ``None`` if the commit outlives the next one."""


class CommittedEnds:
    """The file of one task. One thread at a time uses it."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        """Read what the file beside *directory*, that of the task, says; nothing if there is none.

        Raises:
            UnsupportedFormatError: It is of a later release.
            StorageError: It cannot be read.
        """
        self._file = directory.with_name(directory.name + ENDS_SUFFIX)
        self._descriptor: int | None = None
        self._page_bytes = _PAGE_BYTES
        self._page = self._read()
        boot = _boot()
        if self._page.boot not in (None, boot):
            # Without the wait for the disk a power failure may have taken what is noted.
            self._page = _Page(sequence=self._page.sequence)
        self._sequence = self._page.sequence
        is_lasting = durability is Durability.POWER_LOSS and self._page.boot is None
        self._boot = None if is_lasting else boot or "unknown"
        self._outputs = dict(self._page.outputs)

    @property
    def outputs(self) -> Mapping[str, int]:
        """What the task's outputs had reached."""
        return self._outputs

    def check_written(self, task: TaskId, written: Iterable[str]) -> None:
        """Accept a task whose directory knows of all stores that the task has *written*.

        Raises:
            StoreCorruptedError: It has been removed, or is an older copy: with it a commit may have
                gone that some of the stores have.
        """
        unknown = sorted(self._page.ends.keys() - set(written))
        if unknown:
            directory = self._file.with_name(str(task))
            raise StoreCorruptedError(
                f"the task {task} has written {', '.join(map(repr, unknown))}, and its directory "
                f"{str(directory)!r} does not know of that: it has been removed, or put back from "
                "an older copy; put back the newest one, or reset the state"
            )

    def check(self, task: TaskId, ends: Mapping[str, int]) -> None:
        """Accept stores whose changelogs end at *ends*, if none was further at the last commit.

        Raises:
            StoreCorruptedError: One was.
        """
        behind = {
            name: (ends[name], noted)
            for name, noted in self._page.ends.items()
            if name in ends and ends[name] < noted
        }
        if behind:
            words = ", ".join(
                f"{name!r} up to offset {noted - 1} of its changelog, which ends before {end}"
                for name, (end, noted) in sorted(behind.items())
            )
            raise StoreCorruptedError(
                f"the task {task} has committed {words}, in partition {task.partition} of "
                f"{str(self._file.parent.parent)!r}: an older copy has been put back, or the "
                "changelog has lost its end; put back the newest copy, or reset the state"
            )

    def note(self, stores: Iterable[LoggedStore[Any]], outputs: Mapping[str, int]) -> None:
        """Say where *stores* and *outputs* are, once they are committed.

        What cannot be written is left: what is noted stays true.
        """
        self._outputs |= outputs
        self._sequence += 1
        page = {
            "format": _FORMAT,
            "sequence": self._sequence,
            "ends": {each.name: end for each in stores if (end := each.changelog.end_offset)},
            "outputs": self._outputs,
            "boot": self._boot,
        }
        text = _encode(page).encode()
        data = b"%08x %b\n" % (google_crc32c.value(text), text)
        with suppress(OSError):
            descriptor = self._descriptor
            if descriptor is None or len(data) > self._page_bytes:
                descriptor = self._begin(len(data))
            # What is left of the page behind the line is older.
            os.pwrite(descriptor, data, self._sequence % 2 * self._page_bytes)

    def close(self) -> None:
        """Close the file. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _begin(self, length: int) -> int:
        """Open the file with pages that take *length* bytes; one with smaller pages is replaced.

        Returns its descriptor.
        """
        self.close()
        size = self._page_bytes
        while size < length:
            size *= 2
        path = self._file
        if size != self._page_bytes:
            path = self._file.with_name(f".{self._file.name}.tmp")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = self._descriptor = os.open(path, flags, 0o666)
        os.ftruncate(descriptor, 2 * size)
        if path != self._file:
            path.replace(self._file)
            self._page_bytes = size
        return descriptor

    def _read(self) -> _Page:
        """Return the newest page that is whole."""
        with reporting("read", self._file):
            try:
                data = self._file.read_bytes()
            except FileNotFoundError:
                return _Page(sequence=0)
        self._page_bytes = max(_PAGE_BYTES, len(data) // 2)
        pages = (data[: self._page_bytes], data[self._page_bytes :])
        found = [page for each in pages if (page := self._page_of(each)) is not None]
        return max(found, key=lambda page: page.sequence, default=_Page(sequence=0))

    def _page_of(self, data: bytes) -> _Page | None:
        """Return what the page *data* says; ``None`` if it is not whole, as a crash leaves it."""
        checksum, _, text = data.partition(b"\n")[0].partition(b" ")
        if checksum != b"%08x" % google_crc32c.value(text):
            return None
        where = repr(str(self._file))
        fields = Fields(parse_object(text, where), where)
        version = fields.integer("format")
        if version != _FORMAT:
            raise UnsupportedFormatError(
                f"{where} has format {version}, and this release knows {_FORMAT}; upgrade "
                "statestores"
            )
        ends, outputs = fields.inside("ends"), fields.inside("outputs")
        return _Page(
            sequence=fields.integer("sequence"),
            ends={name: ends.integer(name) for name in ends},
            outputs={name: outputs.integer(name) for name in outputs},
            boot=fields.text_or_none("boot"),
        )


def _boot() -> str | None:
    """Return what this start of the machine is called; ``None`` where nobody says."""
    try:
        return _BOOT_FILE.read_text("ascii").strip()
    except OSError:
        return None
