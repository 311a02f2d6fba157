"""Which keys a selection has, against a look at each key of a small world."""

from collections.abc import Iterable
from itertools import product

import pyarrow as pa

from statestores.arrow.keys.ascending_seeks import AscendingSeeks
from statestores.arrow.keys.key_order import key_order
from statestores.arrow.keys.key_selection import KeySelection
from statestores.spi import Durability
from statestores_conformance.many_cases import for_each
from statestores_memory.engine import MemoryEngine

LETTERS = (b"", b"a", b"b", b"\xff")
WORLD = sorted({one + other for one, other in product(LETTERS, LETTERS)})
ROWS = pa.record_batch({"key": pa.array(WORLD, pa.binary()), "row": range(len(WORLD))})

SELECTIONS = [
    KeySelection(first=first, last=last, stop=stop, points=points)
    for first, last, stop, points in product(
        (None, b"", b"a", b"b"),
        (None, b"", b"a", b"b\xff"),
        (None, b"", b"ab", b"b"),
        (None, (), (b"a",), (b"aa", b"b")),
    )
]


def has(selection: KeySelection, key: bytes) -> bool:
    """Return whether *selection* has *key*, as it is documented."""
    return (
        (selection.first is None or key >= selection.first)
        and (selection.last is None or key <= selection.last)
        and (selection.stop is None or key < selection.stop)
        and (selection.points is None or key in selection.points)
    )


def keys_of(selection: KeySelection) -> list[bytes]:
    """Return those of the world that it has."""
    return [key for key in WORLD if has(selection, key)]


def test_rows_of_the_selected_keys_are_left() -> None:
    """Each bound is looked at, and so is each key that is named."""
    for selection in SELECTIONS:
        assert selection.filter(ROWS).column("key").to_pylist() == keys_of(selection)
        assert selection.everything is (selection == KeySelection())


def test_two_selections_have_the_keys_in_common() -> None:
    """Whichever of them is asked."""
    for one, other in product(SELECTIONS, SELECTIONS[::7]):
        wanted = [key for key in keys_of(one) if has(other, key)]
        assert keys_of(one.both(other)) == keys_of(other.both(one)) == wanted


def test_what_may_have_a_selected_key_is_never_left_out() -> None:
    """A file that is not read is one of which a row is missed."""
    for selection in SELECTIONS:
        keys = keys_of(selection)
        first, last = selection.bounds
        assert all((first or b"") <= key and (last is None or key <= last) for key in keys)
        assert not (selection.nothing and keys)
        for lowest, highest in product(LETTERS, (*LETTERS, None)):
            between = [key for key in keys if key >= lowest and (highest is None or key <= highest)]
            assert selection.may_be_between(lowest, highest) or not between


@for_each(
    ("selection", "is_nothing", "bounds"),
    [
        (KeySelection(), False, (None, None)),
        (KeySelection(stop=b""), True, (None, b"")),
        (KeySelection(stop=b"\x01"), False, (None, b"\x01")),
        (KeySelection(points=()), True, (None, None)),
        (KeySelection(points=(), first=b"a"), True, (b"a", None)),
        (KeySelection(points=(b"a", b"b", b"c")), False, (b"a", b"c")),
        (KeySelection(points=(b"a", b"c"), first=b"b", last=b"d"), False, (b"b", b"c")),
        (KeySelection(points=(b"b", b"d"), first=b"a", last=b"c"), False, (b"b", b"c")),
        (KeySelection(points=(b"a",), first=b"b"), True, (b"b", b"a")),
        (KeySelection(first=b"a", last=b"a"), False, (b"a", b"a")),
        (KeySelection(first=b"b", last=b"a"), True, (b"b", b"a")),
        (KeySelection(first=b"a", stop=b"a"), True, (b"a", b"a")),
        (KeySelection(first=b"a", stop=b"b"), False, (b"a", b"b")),
        (KeySelection(last=b"a", stop=b"b"), False, (None, b"a")),
    ],
)
def test_a_selection_has_bounds_and_perhaps_no_key(
    selection: KeySelection, *, is_nothing: bool, bounds: tuple[bytes | None, bytes | None]
) -> None:
    """By them files are left out, without a look at what is in them."""
    assert (selection.nothing, selection.bounds) == (is_nothing, bounds)


@for_each(
    ("selection", "lowest", "highest", "expected"),
    [
        (KeySelection(), b"a", b"b", True),
        (KeySelection(last=b"a"), b"a", b"b", True),
        (KeySelection(last=b"a"), b"b", None, False),
        (KeySelection(first=b"b"), b"a", b"b", True),
        (KeySelection(first=b"c"), b"a", b"b", False),
        (KeySelection(first=b"c"), b"a", None, True),
        (KeySelection(points=(b"a", b"d")), b"b", b"c", False),
        (KeySelection(points=(b"a", b"d")), b"b", b"d", True),
        (KeySelection(points=(b"a", b"d")), b"d", b"e", True),
        (KeySelection(points=(b"a", b"d")), b"b", None, True),
        (KeySelection(points=(b"a", b"d")), b"e", None, False),
        (KeySelection(points=()), b"", None, False),
    ],
)
def test_files_without_a_selected_key_are_left_out(
    selection: KeySelection, lowest: bytes, highest: bytes | None, *, expected: bool
) -> None:
    """Of a file the lowest and the highest key are known."""
    assert selection.may_be_between(lowest, highest) is expected


@for_each(
    ("prefix", "stop"),
    [(b"", None), (b"ab", b"ac"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"a\xffb", b"a\xffc")],
)
def test_the_keys_with_a_prefix_are_selected(prefix: bytes, stop: bytes | None) -> None:
    """And no other one: after the last of them comes what no byte can be added to."""
    selection = KeySelection.prefix(prefix)

    assert selection == KeySelection(first=prefix, stop=stop)
    assert keys_of(selection) == [key for key in WORLD if key.startswith(prefix)]


def test_selected_keys_ascend_and_are_there_once() -> None:
    """They are looked for by halves."""
    assert KeySelection.of(iter([b"b", b"a", b"b"])).points == (b"a", b"b")


def test_no_keys_have_an_order() -> None:
    """An array of rows, and one that says which of them begin a key."""
    order = key_order(pa.array([], pa.binary()))

    assert [each.dtype.kind for each in order] == ["i", "b"]
    assert [len(each) for each in order] == [0, 0]


class _Reader(MemoryEngine):
    """An engine that counts what is sought in it."""

    sought = 0

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        self.sought += 1
        return super().first(start, stop)


def numbered(numbers: Iterable[int]) -> list[bytes]:
    """Return keys in the order of their numbers."""
    return [b"%08d" % number for number in numbers]


@for_each("step", [1, 3, 5, 500])
def test_what_is_sought_in_order_is_found(step: int) -> None:
    """In blocks where many of them are asked for, and each by itself where few are."""
    engine = _Reader.open("")
    engine.apply(dict.fromkeys(numbered(range(3_000)), b""), Durability.PROCESS_CRASH)
    seeks = AscendingSeeks(engine, b"9")
    found = [
        seeks.first(key, stop)
        for number in range(0, 3_000, step)
        for key, stop in zip(
            numbered([number, number]), numbered([number + 1, number]), strict=True
        )
    ]

    assert found == [row for key in numbered(range(0, 3_000, step)) for row in ((key, b""), None)]
    assert (engine.sought == 0) is (step < 10)
    engine.close()
