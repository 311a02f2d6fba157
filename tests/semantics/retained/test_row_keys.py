"""The keys of rows of windows and sessions and of their names, against the layout byte by byte."""

from random import Random

import pytest

from statestores.semantics.retained.rows import (
    NEVER,
    RetainedRows,
    index_above,
    index_time,
    unnumbered_key,
)
from statestores_conformance.many_cases import for_each

LATEST_MS = (1 << 63) - 1
TIMES = (0, 1, 255, 256, 1_700_000_000_000, LATEST_MS - 1, LATEST_MS)
MANY = 128
"""From so many keys of one length on they are cut from all of them as one."""

STORES = {"plain": RetainedRows(has_number=False), "numbered": RetainedRows(has_number=True)}


def _escaped(key: bytes) -> bytes:
    return b"".join(b"\x00\xff" if byte == 0 else bytes((byte,)) for byte in key)


def _row(of: RetainedRows, key: bytes, time_ms: int, number: int) -> bytes:
    """Return what LAY-19 says."""
    packed = time_ms.to_bytes(8) + (number.to_bytes(8) if of.has_number else b"")
    return b"\x02" + _escaped(key) + b"\x00\x00" + packed


def _name(of: RetainedRows, key: bytes, time_ms: int, number: int) -> bytes:
    """Return what LAY-20 says."""
    end = number.to_bytes(8) if of.has_number else b""
    return b"\x03" + time_ms.to_bytes(8) + _escaped(key) + b"\x00\x00" + end


def _drawn(chance: Random, count: int) -> list[tuple[bytes, int, int]]:
    """Draw keys, times and numbers, with zero bytes and without."""
    alphabet = chance.choice([b"ab", b"\x00\x01\xffa"])
    return [
        (
            bytes(chance.choices(alphabet, k=chance.randrange(5))),
            chance.choice(TIMES),
            chance.choice(TIMES),
        )
        for _ in range(count)
    ]


@pytest.mark.spec("LAY-19", "LAY-20")
@pytest.mark.parametrize("store", STORES)
def test_rows_and_their_names_are_where_the_layout_has_them(store: str) -> None:
    """One by one and as columns, and what they say is read out of them again."""
    of, chance = STORES[store], Random(0)
    for count in (1, 1, 2, 7, 7):
        drawn = _drawn(chance, count)
        keys, times, numbers = (list(column) for column in zip(*drawn, strict=True))
        rows = [_row(of, *each) for each in drawn]
        joined = chance.choice([None, b"".join(keys)])
        column = numbers if of.has_number else None

        assert [of.data_key(*each) for each in drawn] == rows
        assert of.data_keys(keys, times, column, joined=joined) == rows
        assert of.index_keys(rows) == [_name(of, *each) for each in drawn]
        assert of.indexed_keys(of.index_keys(rows)) == rows
        assert list(map(of.index_key, rows)) == of.index_keys(rows)
        assert list(map(of.indexed_key, of.index_keys(rows))) == rows
        assert of.highest_time(rows) == max(times).to_bytes(8)
        assert list(map(of.key_of, rows)) == keys
        assert list(map(of.time_of, rows)) == times
        assert list(map(index_time, of.index_keys(rows))) == times
        if of.has_number:
            assert list(map(of.number_of, rows)) == numbers
        else:
            assert [unnumbered_key(key, time_ms) for key, time_ms, _ in drawn] == rows


@pytest.mark.spec("LAY-19")
@for_each("count", [0, 1, MANY - 1, MANY, MANY + 1, 2 * MANY, 2 * MANY + 3])
def test_keys_of_one_start_are_cut_from_one_where_they_are_many(count: int) -> None:
    """They have the same length then; otherwise each is made, and there is no such one."""
    of = STORES["plain"]
    for lengths, zeros in ((4, b""), (2, b"\x00"), (None, b"")):
        keys = [
            zeros
            + (b"%04d" % number)[-(lengths or 4) :]
            + b"x" * (number % 2 if not lengths else 0)
            for number in range(count)
        ]
        rows = [_row(of, key, 77, 0) for key in keys]
        found, joined = of.joined_keys_at(keys, 77)

        assert found == rows
        assert of.data_keys_at(keys, 77) == rows
        assert joined == (b"".join(rows) if lengths and count >= MANY else None)


@pytest.mark.spec("LAY-19")
@for_each("few", [0, 1, 3, MANY // 4, MANY // 4 + 1, MANY])
@for_each(("place", "step"), [(0, 37), (7, 1), (15, 37)])
def test_of_many_keys_those_with_zero_bytes_are_made_anew(few: int, place: int, step: int) -> None:
    """Some among many, neighbours or not, wherever their zero bytes are; no other is escaped."""
    of = STORES["plain"]
    keys = [b"%016d" % number for number in range(MANY)]
    for number in range(few):
        at = number * step % MANY
        keys[at] = keys[at][:place] + b"\x00" + keys[at][place + 1 :]
    if few:
        keys[-1] = b"\x00" * 16  # many in one
    rows = [_row(of, key, 77, 0) for key in keys]

    assert of.joined_keys_at(keys, 77) == (rows, None if few else b"".join(rows))
    assert list(map(of.key_of, rows)) == keys


@pytest.mark.spec("WIN-3", "WIN-12")
@pytest.mark.parametrize("store", STORES)
def test_bounds_have_all_rows_of_both_ranges(store: str, subtests: pytest.Subtests) -> None:
    """Of one key no others; of several, `within` leaves out those whose time is out of range."""
    of, keys, times = STORES[store], [b"", b"\x00", b"a", b"a\x00", b"b"], [0, 5, 6, LATEST_MS]
    every = {
        _row(of, key, time_ms, number): (key, time_ms)
        for key in keys
        for time_ms in times
        for number in ((0, 9) if of.has_number else (0,))
    }
    for first, last in [
        (None, None),
        (None, b"a"),
        (b"a", None),
        (b"\x00", b"a\x00"),
        (b"a", b"a"),
    ]:
        for low, high in [(0, LATEST_MS), (5, 6), (6, 6), (6, LATEST_MS), (7, 8), (6, 5)]:
            with subtests.test(first=first, last=last, low=low, high=high):
                start, stop = of.bounds(first, last, low, high)
                rows = [(row, b"a value") for row in sorted(every) if start <= row < stop]
                expected = [
                    row
                    for row, (key, time_ms) in sorted(every.items())
                    if (first is None or first <= key)
                    and (last is None or key <= last)
                    and low <= time_ms <= high
                ]

                assert [row for row, _ in of.within(rows, low, high)] == expected
                if first is not None and first == last:
                    assert [row for row, _ in rows] == expected
                if low > high:
                    assert start == stop


@pytest.mark.spec("LAY-20")
def test_the_index_is_cut_above_a_time() -> None:
    """Names of that time are below, those of the next one above, and no time is above all."""
    of = STORES["plain"]
    for time_ms in TIMES[:-1]:
        at, above = (_name(of, b"", each, 0) for each in (time_ms, time_ms + 1))

        assert at < index_above(time_ms) <= above
        assert index_above(time_ms) == b"\x03" + (time_ms + 1).to_bytes(8)
    assert LATEST_MS.to_bytes(8) < NEVER
