"""The preloaded library that lets calls to the operating system fail, and how to steer it.

It stands below every driver, so it fails what no mock reaches: a `pwrite` of SQLite, an `fdatasync`
of RocksDB. Linux with glibc, and a C compiler, are what it needs.
"""

import ctypes
import errno
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CLASSES = (
    "write",
    "sync",
    "rename",
    "open",
    "map",
    "resize",
    "remove",
    "read",
    "make",
    "lock",
    "list",
    "look",
)
"""The classes of calls, in the order of `failing_calls.c`."""

CHANGING = ("write", "sync", "rename", "resize", "remove", "make")
"""What a disk refuses that has become read-only."""

_SOURCE = Path(__file__).with_suffix(".c")
_MANNERS = ("nothing", "torn", "short")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How calls fail."""

    error: str
    """The name of the error's number."""

    sticky: bool = False
    """Whether all calls fail from the first one that does."""

    how: str = "nothing"
    """What a write does before it fails: nothing, or half (*torn*); *short* is no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Which calls of an operation fail."""

    calls: tuple[str, ...]
    """The classes of the calls that are counted, and fail."""

    at: int
    """The number of the first call that fails, from 1."""

    manner: Manner
    """How they fail."""

    def describe(self) -> dict[str, Any]:
        """Return what `from_description` takes, for another process."""
        return asdict(self)

    @classmethod
    def from_description(cls, described: dict[str, Any]) -> "Fault":
        """Return the fault that another process has described."""
        return cls(
            calls=tuple(described["calls"]),
            at=described["at"],
            manner=Manner(**described["manner"]),
        )

    def __str__(self) -> str:
        how = self.manner
        which = "each call from" if how.sticky else "call"
        extent = "" if how.how == "nothing" else f", {how.how}"
        return f"{which} {self.at} of {'+'.join(self.calls)}: {how.error}{extent}"


_EIO = Manner(error="EIO")
_GONE = Manner(error="EIO", sticky=True)
_NO_SPACE = Manner(error="ENOSPC", sticky=True, how="torn")
_NO_RIGHTS = Manner(error="EACCES", sticky=True)

MANNERS: dict[tuple[str, ...], tuple[Manner, ...]] = {
    ("write",): (
        _EIO,
        Manner(error="EIO", how="torn"),
        Manner(error="ENOSPC", how="torn"),
        _NO_SPACE,
        Manner(error="EIO", how="short"),
    ),
    ("sync",): (_EIO, _GONE, Manner(error="ENOSPC")),
    ("rename",): (_EIO, _GONE),
    ("open",): (_EIO, Manner(error="EMFILE", sticky=True), _NO_RIGHTS),
    ("map",): (Manner(error="ENOMEM"), Manner(error="ENOMEM", sticky=True)),
    ("resize",): (_EIO, Manner(error="ENOSPC", sticky=True)),
    ("remove",): (_EIO, _NO_RIGHTS),
    ("read",): (_EIO, _GONE, Manner(error="EIO", how="short")),
    ("make",): (Manner(error="ENOSPC"), _NO_RIGHTS),
    ("lock",): (Manner(error="ENOLCK"),),
    ("list",): (_EIO, _NO_RIGHTS),
    ("look",): (_EIO,),
    CHANGING: (Manner(error="EROFS", sticky=True),),
}
"""How the calls of each class, or of several, fail."""


def why_it_cannot_be_built() -> str | None:
    """Return in words why there can be no such library here; ``None`` when there can."""
    if not sys.platform.startswith("linux"):
        return "calls can be made to fail on Linux only"
    if shutil.which("cc") is None or not Path("/usr/include/stdio.h").exists():
        return "there is no C compiler: install gcc and the headers of the C library"
    return None


def build(directory: Path) -> Path:
    """Compile the library into *directory*."""
    library = directory / "failing_calls.so"
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # fixed
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return library


class FailingCalls:
    """The library, in a process that was started with it."""

    def __init__(self, directory: Path) -> None:
        """Let calls for files below *directory* fail, once `arm` says which."""
        self._library = ctypes.CDLL(None)
        self._library.fault_below(str(directory.resolve()).encode())

    def arm(self, fault: Fault | None) -> None:
        """Let calls fail as *fault* says; without one they are only counted."""
        if fault is None:
            self._library.fault_arm(_bits(CLASSES), 0, 0, 0, 0)
        else:
            self._library.fault_arm(
                _bits(fault.calls),
                fault.at,
                getattr(errno, fault.manner.error),
                int(fault.manner.sticky),
                _MANNERS.index(fault.manner.how),
            )

    def disarm(self) -> None:
        """Let all calls pass."""
        self._library.fault_disarm()

    @property
    def fired(self) -> int:
        """How many calls have failed since `arm`."""
        return int(self._library.fault_fired())

    @property
    def counts(self) -> dict[str, int]:
        """How many calls of each class there were since `arm`."""
        return {name: self._library.fault_count(number) for number, name in enumerate(CLASSES)}


def _bits(classes: tuple[str, ...]) -> int:
    return sum(1 << CLASSES.index(name) for name in classes)
