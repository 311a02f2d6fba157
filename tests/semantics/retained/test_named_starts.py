"""What is known of the starts of windows, span by span, and what giving up a span leaves."""

from statestores.semantics.retained.named_starts import NOT_KEPT, NamedStarts, Rows, sizes_of

SPAN_MS = 100


def known(*starts: int) -> NamedStarts:
    """Return two rows of each of *starts*, with their values."""
    named = NamedStarts()
    for start_ms in starts:
        rows: Rows = {b"a": b"1", b"b": b"2"}
        sizes = sizes_of(fresh=2, key_bytes=10, values=2, row_bytes=11)
        named.add(start_ms // SPAN_MS, start_ms, rows, sizes, is_kept=True)
    return named


def test_a_span_that_is_given_up_leaves_nothing() -> None:
    """Neither its first start nor its last stays in the order, and no memory counts any more."""
    named = known(90, 110, 150, 190, 210)

    given = named.pop(1)

    assert sorted(start_ms for start_ms, _ in given) == [110, 150, 190]
    assert named.order == sorted(named.rows) == [90, 210]
    assert list(named) == [0, 2]
    alone = known(90, 210)
    assert (named.name_bytes, named.value_bytes) == (alone.name_bytes, alone.value_bytes)


def test_of_a_span_the_names_alone_are_kept() -> None:
    """Its values count no longer; those of another span stay."""
    named = known(90, 110)
    names = named.name_bytes

    named.keep_names(1)

    assert all(value is NOT_KEPT for value in named.rows[110].values())
    assert named.rows[110].keys() == {b"a", b"b"}
    assert named.rows[90] == {b"a": b"1", b"b": b"2"}
    assert named.kept_spans() == [0]
    assert (named.name_bytes, named.value_bytes) == (names, known(90).value_bytes)
