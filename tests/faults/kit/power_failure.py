"""Which directories a power failure may leave, for a workload that runs in this process.

Whatever is not on disk may be lost, and what is on disk is known, because it is asked for: `fsync`
of a file brings its content there, `fsync` of a directory its names (ASM-1, ASM-2). So it is enough
to look at the real files whenever the workload asks for that, renames or removes something: what
they hold then and what was last made durable are the two ends, and the disk may hold either, or a
piece of the newer content; of the names of a directory, any part of what has changed. A rename is
one change (ASM-2), and what was durable stays (ASM-4).

This is harsher than file systems are, which order most of this by themselves: what holds here
holds there. The drivers of engines write by themselves and are not seen; their files do not belong
below the directory that is recorded.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

_BLOCK_BYTES = 4096

Names = dict[str, int]
"""What a directory holds: the number of the file or directory under each name."""


@dataclass(slots=True)
class _Node:
    """A file or a directory, under whatever name, also when it has none any more."""

    is_directory: bool
    data: bytes = b""
    """The content of the file as the kernel has it."""
    durable_data: bytes = b""
    """Its content on disk."""
    names: Names = field(default_factory=dict)
    """What the directory holds as the kernel has it."""
    durable_names: Names = field(default_factory=dict)
    """What it holds on disk."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment at which the power may fail."""

    number: int
    """Its place in the run."""

    what: str
    """What was about to happen, or had just happened."""

    nodes: dict[int, _Node]
    """All files and directories, by number; the root is 0."""

    told: int
    """How long the oracle was."""


class Recording:
    """Watches the files below one directory while a workload runs."""

    def __init__(self, root: Path, told: Callable[[], int]) -> None:
        """Watch *root*, which is empty and durable; *told* says how long the oracle is."""
        self._root = root
        self._told = told
        self._nodes: dict[int, _Node] = {0: _Node(is_directory=True)}
        self._by_inode: dict[int, int] = {root.stat().st_ino: 0}
        self._numbers = count(1)
        self.moments: list[Moment] = []
        """The moments at which something happened, in order."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record what happens in the block."""
        watched = {
            name: self._watching(getattr(os, name))
            for name in ("fsync", "fdatasync", "replace", "rename", "unlink", "remove", "rmdir")
        }
        with ExitStack() as watching:
            for name, function in watched.items():
                watching.enter_context(patch.object(os, name, function))
            yield
        self._note("the end")

    def _watching(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return *function*, with a moment before it and one after it."""
        name = function.__name__

        def watched(*arguments: Any, **named: Any) -> Any:
            what = f"{name}{arguments!r}"
            self._note(f"before {what}")
            synced = arguments[0] if name in ("fsync", "fdatasync") else None
            inode = None if synced is None else os.fstat(synced).st_ino
            result = function(*arguments, **named)
            if inode is not None and inode in self._by_inode:
                node = self._nodes[self._by_inode[inode]]
                node.durable_data, node.durable_names = node.data, dict(node.names)
            self._note(f"after {what}")
            return result

        return watched

    def _note(self, what: str) -> None:
        """Look at everything, and remember it."""
        live: set[int] = set()
        self._look(self._root, live)
        # A number that has gone may come again for another file.
        self._by_inode = {inode: n for inode, n in self._by_inode.items() if inode in live}
        nodes = {
            number: _Node(
                node.is_directory,
                node.data,
                node.durable_data,
                dict(node.names),
                dict(node.durable_names),
            )
            for number, node in self._nodes.items()
        }
        self.moments.append(Moment(len(self.moments), what, nodes, self._told()))

    def _look(self, path: Path, live: set[int]) -> int:
        """Take note of what is at *path* and below; return its number."""
        inode = path.lstat().st_ino
        live.add(inode)
        if inode not in self._by_inode:
            self._by_inode[inode] = next(self._numbers)
        number = self._by_inode[inode]
        node = self._nodes.setdefault(number, _Node(is_directory=path.is_dir()))
        if node.is_directory:
            node.names = {each.name: self._look(each, live) for each in sorted(path.iterdir())}
        else:
            node.data = path.read_bytes()
        return number


@dataclass(frozen=True, slots=True)
class Image:
    """What a power failure leaves: a choice for every file and every directory."""

    nodes: dict[int, _Node]
    data: dict[int, bytes]
    names: dict[int, Names]

    def content(self, number: int = 0) -> object:
        """Return what is left of file or directory *number*: equal to that of its like."""
        if not self.nodes[number].is_directory:
            return self.data[number]
        names = self.names[number]
        return tuple((name, self.content(names[name])) for name in sorted(names))

    def write(self, root: Path) -> None:
        """Make *root* hold it."""
        if root.exists():
            shutil.rmtree(root)
        self._write(0, root)

    def _write(self, number: int, path: Path) -> None:
        if self.nodes[number].is_directory:
            path.mkdir()
            for name, inside in self.names[number].items():
                self._write(inside, path / name)
        else:
            path.write_bytes(self.data[number])


def images(moment: Moment, dice: random.Random, chances: int) -> Iterator[Image]:
    """Yield what a power failure at *moment* may leave: the two extremes, and *chances* others."""
    nodes = moment.nodes
    for fate in (0.0, 1.0, *(dice.choice((0.1, 0.5, 0.9)) for _ in range(chances))):
        data = {
            number: _some_data(node, dice, fate)
            for number, node in nodes.items()
            if not node.is_directory
        }
        names = {
            number: _some_names(node, dice, fate)
            for number, node in nodes.items()
            if node.is_directory
        }
        yield Image(nodes, data, names)


def _some_data(node: _Node, dice: random.Random, fate: float) -> bytes:
    """Return the file as it may be: old, new, or torn where it differs from what is durable."""
    old, new = node.durable_data, node.data
    if old == new or fate == 1.0:
        return new
    if fate == 0.0:
        return old
    shape = dice.randrange(4)
    if shape == 0:
        return new if dice.random() < fate else old
    # What is durable in both stays as it is.
    pairs = zip(old, new, strict=False)
    keep = next((at for at, (was, now) in enumerate(pairs) if was != now), min(len(old), len(new)))
    if shape == 1:  # cut anywhere
        return new[: dice.randint(keep, len(new))] if len(new) > keep else old
    if shape == 2:  # the size is on disk, and the content not all
        cut = dice.randint(keep, len(new))
        return new[:cut] + bytes(len(new) - cut)
    # Blocks arrive in any order.
    torn = bytearray(old[: len(new)].ljust(len(new), b"\0"))
    for start in range(keep, len(new), _BLOCK_BYTES):
        if dice.random() < fate:
            torn[start : start + _BLOCK_BYTES] = new[start : start + _BLOCK_BYTES]
    return bytes(torn)


def _some_names(node: _Node, dice: random.Random, fate: float) -> Names:
    """Return the names as they may be: each change there or not, a rename wholly there or not."""
    old, new = node.durable_names, node.names
    moved = {number: name for name, number in new.items() if number in old.values()}
    chosen = dict(old)
    for name in sorted({*old, *new}):
        if old.get(name) == new.get(name) or dice.random() >= fate:
            continue
        if name in new:
            chosen[name] = new[name]
            for before, number in old.items():  # of a file that was renamed, the other name goes
                if number == new[name] and before != name and chosen.get(before) == number:
                    del chosen[before]
        elif old[name] not in moved:
            chosen.pop(name, None)
    return chosen
