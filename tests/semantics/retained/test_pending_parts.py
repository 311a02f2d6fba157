"""The parts of which commits and reads of windows and sessions are made, each by itself."""

from random import Random
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, StoreCorruptedError
from statestores.semantics.retained import rows_of_keys
from statestores.semantics.retained.checked_changes import columns_of_windows
from statestores.semantics.retained.column_rows import ColumnRows
from statestores.semantics.retained.name_groups import (
    MOST_BYTES,
    MOST_NAMES,
    groups_of,
    is_one_group,
    pack_joined,
    pack_names,
    unpack_names,
)
from statestores.semantics.retained.rows_by_start import RowsByStart, starts_of
from statestores.semantics.retained.rows_of_keys import RowsOfKeys, overlaid
from statestores.spi import Changes
from statestores_conformance.many_cases import for_each

KEY = b"\x03group"


@pytest.mark.spec("LAY-30")
@for_each("names", [[b"a"], [b"aa", b"bb"], [b"a", b"bb", b""], [b"", b"a"]])
def test_names_are_packed_as_short_as_their_lengths_allow(names: list[bytes]) -> None:
    """One length for all where they have the same, else one for each; and read again."""
    packed = pack_names(names)
    sizes = {len(name) for name in names}

    assert unpack_names(KEY, packed) == names
    assert len(packed) == 4 + sum(map(len, names)) + (0 if len(sizes) == 1 else 4 * len(names))
    if len(sizes) == 1:
        assert packed == pack_joined(sizes.pop(), b"".join(names))


@pytest.mark.spec("LAY-30")
@for_each(
    "packed",
    [b"", bytes(4), b"\0\0\0\x02", b"\0\0\0\x02abc", b"\0\0\0\0\0\0\0\x05ab", b"\0\0\0\0\0\0"],
)
def test_what_holds_no_whole_name_is_damage(packed: bytes) -> None:
    """Nothing, no name, a part of one."""
    with pytest.raises(StoreCorruptedError, match=r"are no names \(LAY-30\)"):
        unpack_names(KEY, packed)


@for_each(
    ("count", "size", "parts"),
    [
        (1, 3, [1]),
        (MOST_NAMES, 3, [MOST_NAMES]),
        (MOST_NAMES + 1, 3, [MOST_NAMES, 1]),
        (64, 1_024, [64]),
        (65, 1_024, [64, 1]),
        (3, MOST_BYTES + 1, [1, 1, 1]),
        (2, MOST_BYTES - 1, [2]),
        (3, MOST_BYTES, [1, 1, 1]),
    ],
)
def test_a_group_takes_names_until_it_is_full(count: int, size: int, parts: list[int]) -> None:
    """Of so many names, or bytes: beyond these it takes no further one."""
    names = [b"%06d".rjust(size) % number for number in range(count)]
    names = [name[-size:] for name in names]
    joined = b"".join(names)
    found = list(groups_of(names, len(joined)))

    assert [name for part in found for name in part] == names
    assert [len(part) for part in found] == parts
    if size != MOST_BYTES - 1:  # of two large names the second is still taken, in a group alone
        assert is_one_group(names, joined) is (len(parts) == 1)


def test_a_name_that_fills_a_group_is_still_taken() -> None:
    """A group that has not reached its bytes has room for one more, however long."""
    names = [b"a" * 10, b"b" * MOST_BYTES, b"c"]

    assert list(groups_of(names, sum(map(len, names)))) == [names[:2], names[2:]]


def test_columns_are_a_batch_with_other_rows_behind_them() -> None:
    """In pairs, as values, one by one; as a dictionary of the same rows."""
    batch = ColumnRows([b"\x02b", b"\x02a"], [b"1", None])
    batch[b"\x00x"] = b"2"
    batch.update({b"\x03y": None})
    rows = {b"\x02b": b"1", b"\x02a": None, b"\x00x": b"2", b"\x03y": None}

    assert list(batch) == list(rows)
    assert list(batch.items()) == list(rows.items())
    assert list(batch.values()) == list(rows.values())
    assert list(batch.pairs()) == list(rows.items())
    assert list(batch.rows()) == list(rows.values())
    assert [batch[key] for key in rows] == list(rows.values())
    assert [batch[key] for key in reversed(rows)] == list(rows.values())[::-1]
    assert len(batch) == 4
    assert b"2" in batch.values()
    assert None in batch.values()
    assert b"3" not in batch.values()
    with pytest.raises(KeyError):
        batch[b"\x02c"]


@pytest.mark.parametrize("seed", range(5))
def test_pending_rows_of_a_prefix_come_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was put since the last read, up to as many as are taken in one by one."""
    monkeypatch.setattr(rows_of_keys, "MOST_FRESH", 12)
    chance = Random(seed)
    rows: dict[bytes, bytes | None] = {}
    by_prefix = RowsOfKeys(rows, 2)
    for _ in range(40):
        for _ in range(chance.choice([0, 1, 5, 12])):
            key = chance.choice([b"a", b"b", b"ab"]) + chance.randbytes(2)
            rows[key] = chance.choice([None, b"v", b"w"])
        prefix = chance.choice([b"a", b"b", b"c"])
        start, stop = sorted(prefix + chance.randbytes(2) for _ in range(2))
        chosen = [
            (key, row)
            for key, row in sorted(rows.items(), key=lambda row: row[0])
            if key[:-2] == prefix and start <= key < stop
        ]

        assert by_prefix.slice(prefix, start, stop, reverse=False) == chosen
        assert by_prefix.slice(prefix, start, stop, reverse=True) == chosen[::-1]


def test_too_many_new_rows_are_for_somebody_else_to_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many more than are taken in: one fewer is still looked at."""
    monkeypatch.setattr(rows_of_keys, "MOST_FRESH", 12)
    rows: dict[bytes, bytes | None] = {b"a%04d" % number: b"v" for number in range(12)}
    by_prefix = RowsOfKeys(rows, 4)
    assert len(by_prefix.slice(b"a", b"a", b"b", reverse=False) or []) == 12
    rows |= {b"b%04d" % number: b"v" for number in range(13)}

    assert by_prefix.slice(b"a", b"a", b"b", reverse=False) is None


def test_rows_that_an_interrupt_left_uncounted_come_once() -> None:
    """They were taken in, and are so again by the next read."""
    rows: dict[bytes, bytes | None] = {b"a1": b"v", b"a2": None}
    by_prefix = RowsOfKeys(rows, 1)
    by_prefix.slice(b"a", b"a", b"b", reverse=False)
    by_prefix._known = 0

    assert by_prefix.slice(b"a", b"a", b"b", reverse=False) == [(b"a1", b"v"), (b"a2", None)]


@for_each("reverse", [False, True])
def test_what_is_pending_lies_over_what_is_stored(*, reverse: bool) -> None:
    """Replaced, deleted and added; and alone where nothing is stored."""
    stored = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    overlay: list[tuple[bytes, bytes | None]] = [(b"b", None), (b"c", b"new"), (b"d", b"4")]
    if reverse:
        stored.reverse()
        overlay.reverse()
    expected = [(b"a", b"1"), (b"c", b"new"), (b"d", b"4")]
    alone = [(b"c", b"new"), (b"d", b"4")]

    assert overlaid(stored, overlay, reverse=reverse) == (expected[::-1] if reverse else expected)
    assert overlaid([], overlay, reverse=reverse) == (alone[::-1] if reverse else alone)
    assert overlaid(stored, [], reverse=reverse) == stored


class _ByTime:
    """Rows whose keys are a letter and their time."""

    def time_of(self, data_key: bytes) -> int:
        """Return the time behind the letter."""
        return int(data_key[1:])

    def key_of(self, data_key: bytes) -> bytes:
        """Return the letter."""
        return data_key[:1]


@pytest.mark.spec("WIN-8")
def test_pending_rows_at_the_horizon_have_expired() -> None:
    """Of those that are kept by their start, and of the few that are kept as rows."""
    of: Any = _ByTime()
    by_start: RowsByStart = {4: {b"a": b"1"}, 5: {b"a": b"2"}, 6: {b"a": b"3"}}
    others = {b"b4": b"4", b"b5": b"5", b"b6": b"6", b"a6": b"older", b"c7": None}

    found = starts_of(of, by_start, others, 5)
    assert found == {6: {b"a": b"3", b"b": b"6"}, 7: {b"c": None}}
    assert by_start[6] is found[6]
    every = starts_of(of, {}, others)
    assert every == {
        4: {b"b": b"4"},
        5: {b"b": b"5"},
        6: {b"b": b"6", b"a": b"older"},
        7: {b"c": None},
    }


@pytest.mark.spec("COM-34")
def test_no_changes_need_no_sequences() -> None:
    """Of a store that retains duplicates; of one change they are needed."""
    assert columns_of_windows(Changes([], [], []), "s", has_number=True) == ([], [], [], [])
    with pytest.raises(InvalidArgumentError, match="carry no sequences"):
        columns_of_windows(Changes([b"k"], [b"v"], [1]), "s", has_number=True)
