"""Changes of the files of an engine that nobody has open, each made in a copy of its own."""

import random
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

_BLOCK = 4096
"""Drivers lay out files in pages of this size, or of a multiple, and what counts comes first."""
_HEAD = 8
"""How much of a page's beginning is what the rest of it is found by."""

_TEXT = re.compile(rb"[A-Za-z_]{3,} [A-Za-z_0-9(),\s]{24,}")
"""Words, as in what creates a table; not those of a log, each line of which begins with a date."""

_HEADER = 100
"""The length of a header, at most."""
_BEGINNING = 256
"""Lists of files are not longer where there are few."""
_ZEROS = 32
_MASKS = [1 << bit for bit in range(8)]


def bytes_of(directory: Path) -> dict[str, bytes]:
    """Return the files that *directory* holds."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def appended_to(moments: Sequence[dict[str, bytes]]) -> list[str]:
    """Return which files grew from each of *moments* to the next, and kept what was in them.

    So does a log, whatever else an engine has.
    """
    return [
        name
        for name, data in sorted(moments[0].items())
        if all(
            name in after
            and len(after[name]) > len(before[name])
            and after[name].startswith(before[name])
            for before, after in pairwise(moments)
        )
    ]


def with_a_flipped_bit(
    engine: Path, to: Path, bits: Iterable[tuple[str, int, int]]
) -> Iterator[tuple[Path, str]]:
    """Yield copies of the directory *engine* below *to*, each with one of *bits* flipped.

    A bit is that of a file's name, of a byte in it and of a mask.
    """
    for trial, (name, position, mask) in enumerate(bits):
        damaged = to / f"flipped-{engine.name}-{trial}"
        shutil.copytree(engine, damaged)
        data = bytearray((damaged / name).read_bytes())
        data[position] ^= mask
        (damaged / name).write_bytes(data)
        yield damaged, f"byte {position} of {name} was flipped by {mask}"
        shutil.rmtree(damaged)


def any_bits(
    files: dict[str, bytes], trials: int, choose: random.Random
) -> Iterator[tuple[str, int, int]]:
    """Yield *trials* bits of *files*, each file in turn."""
    names = sorted(name for name, data in files.items() if data)
    for trial in range(trials):
        name = names[trial % len(names)]
        yield name, choose.randrange(len(files[name])), 1 << choose.randrange(8)


def bits_of_page_heads(files: dict[str, bytes], which: slice) -> Iterator[tuple[str, int, int]]:
    """Yield bits at the beginnings of *which* pages, of all that are longer than one in *files*.

    The highest bit of each byte that has one: a smaller number, of rows or of bytes, hides what is
    behind it.
    """
    pages = [
        (name, page)
        for name, data in sorted(files.items())
        for page in range(0, len(data) - _HEAD, _BLOCK)
        if len(data) > _BLOCK
    ]
    for name, page in pages[which]:
        for position in range(page, page + _HEAD):
            byte = files[name][position]
            if byte:
                yield name, position, 1 << (byte.bit_length() - 1)


def bits_of_pairs(
    files: dict[str, bytes], pairs: Iterable[tuple[bytes, bytes]]
) -> Iterator[tuple[str, int, int]]:
    """Yield a bit of the key and one of the value of *pairs*, wherever one of *files* has them."""
    for key, value in pairs:
        for name, data in sorted(files.items()):
            at = data.find(key + value)
            if at >= 0:
                yield name, at + len(key) - 1, 1
                yield name, at + len(key) + len(value) // 2, 1


def bits_before_pairs(
    files: dict[str, bytes], pairs: Iterable[tuple[bytes, bytes]], most: int
) -> Iterator[tuple[str, int, int]]:
    """Yield the lowest bit of the *most* bytes before *pairs*, wherever one of *files* has them.

    They say what the pair is: how long, and of which types.
    """
    for key, value in pairs:
        for name, data in sorted(files.items()):
            at = data.find(key + value)
            yield from ((name, before, 1) for before in range(max(0, at - most), at))


def bits_within_the_order(
    files: dict[str, bytes], pairs: Sequence[tuple[bytes, bytes]], most: int
) -> Iterator[tuple[str, int, int]]:
    """Yield a bit of the keys of *most* of *pairs*, wherever one of *files* has them.

    With it flipped, the key is another one and still between its neighbours in *pairs*: no look at
    the order of keys finds it.
    """
    keys: list[bytes] = [key for key, _ in pairs]
    found = 0
    for (key, value), before, after in zip(pairs, [b"", *keys], [*keys[1:], None], strict=False):
        others = [(mask, key[:-1] + bytes([key[-1] ^ mask])) for mask in _MASKS]
        fitting = [m for m, k in others if before < k and (after is None or k < after)]
        places = [(name, data.find(key + value)) for name, data in sorted(files.items())]
        if fitting and found < most:
            yield from ((name, at + len(key) - 1, fitting[0]) for name, at in places if at >= 0)
            found += 1


def bits_of_texts(
    files: dict[str, bytes], mask: int, most: int, choose: random.Random
) -> Iterator[tuple[str, int, int]]:
    """Yield *mask* in up to *most* letters of the first text of each file that has any."""
    for name, data in sorted(files.items()):
        text = _TEXT.search(data)
        if text is not None:
            letters = range(*text.span())
            yield from ((name, at, mask) for at in choose.sample(letters, min(most, len(letters))))


def bits_of_what_was_added(
    before: dict[str, bytes], after: dict[str, bytes], mask: int, most: int, choose: random.Random
) -> Iterator[tuple[str, int, int]]:
    """Yield *mask* at each byte by which a file has grown, or has changed; *most* in each file."""
    for name, changed in _what_was_added(before, after):
        for position in changed if len(changed) <= most else choose.sample(changed, most):
            yield name, position, mask


def _what_was_added(
    before: dict[str, bytes], after: dict[str, bytes]
) -> Iterator[tuple[str, list[int]]]:
    """Yield the bytes by which each file has grown, or has changed."""
    for name, data in sorted(after.items()):
        old = before.get(name, b"")
        yield name, [at for at, byte in enumerate(data) if at >= len(old) or old[at] != byte]


def with_zeros_in_what_was_added(
    engine: Path, to: Path, before: dict[str, bytes], after: dict[str, bytes]
) -> Iterator[tuple[Path, str]]:
    """Yield copies of *engine* below *to*, each with zeros where one file has grown or changed."""
    for name, changed in _what_was_added(before, after):
        if changed:
            copy = shutil.copytree(engine, to)
            data = bytearray((copy / name).read_bytes())
            for position in changed:
                data[position] = 0
            (copy / name).write_bytes(data)
            yield copy, f"{len(changed)} bytes of {name} are zeros"
            shutil.rmtree(copy)


def bits_of_short_files(
    files: dict[str, bytes], mask: int, longest: int
) -> Iterator[tuple[str, int, int]]:
    """Yield *mask* at each third byte of what is not longer than *longest* in *files*."""
    for name, data in sorted(files.items()):
        if len(data) <= longest:
            yield from ((name, position, mask) for position in range(0, len(data), 3))


def bits_of_headers(
    files: dict[str, bytes], mask: int, longest: int
) -> Iterator[tuple[str, int, int]]:
    """Yield *mask* in each second number at the beginning of what is longer than *longest*.

    Headers are made of numbers of four bytes, of which the last is the one that counts.
    """
    for name, data in sorted(files.items()):
        if len(data) > longest:
            yield from ((name, position, mask) for position in range(7, _HEADER, 8))


def with_zeros_at_the_beginning(engine: Path, to: Path) -> Iterator[tuple[Path, str]]:
    """Yield copies of *engine* below *to*, with some zeros where a file of it begins.

    They cover two numbers of eight bytes and what is beside them, or the header of a record.
    """
    for name, data in sorted(bytes_of(engine).items()):
        for begin in range(0, min(len(data), _BEGINNING) - _ZEROS, _ZEROS // 2):
            copy = shutil.copytree(engine, to)
            end = begin + _ZEROS
            (copy / name).write_bytes(data[:begin] + bytes(_ZEROS) + data[end:])
            yield copy, f"{name} has zeros from byte {begin} to {end}"
            shutil.rmtree(copy)


def with_what_is_gone(earlier: Path, later: Path, to: Path) -> list[Path]:
    """Copy *later* to *to*, put the files that only *earlier* has beside it, and return these."""
    shutil.copytree(later, to)
    put_back = []
    for path in sorted(earlier.rglob("*")):
        place = to / path.relative_to(earlier)
        if path.is_file() and not place.exists() and place.parent.is_dir():
            shutil.copy2(path, place)
            put_back.append(place)
    return put_back
