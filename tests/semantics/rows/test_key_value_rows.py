"""The batch of a commit, which is a view of the pending rows."""

from hypothesis import given
from hypothesis import strategies as st

from statestores.semantics.rows.layout import DATA, METADATA, OFFSETS
from statestores.semantics.rows.namespaced_rows import NamespacedRows

ROWS = st.dictionaries(st.binary(max_size=3), st.none() | st.binary(max_size=2))


@given(pending=ROWS, others=ROWS)
def test_it_is_the_mapping_that_a_dictionary_of_rows_would_be(
    pending: dict[bytes, bytes | None], others: dict[bytes, bytes | None]
) -> None:
    """In every way of looking at it, and in the same order."""
    others = {METADATA + key: row for key, row in others.items()}
    batch = NamespacedRows(pending)
    for key, row in others.items():
        batch[key] = row
    rows = {**{DATA + key: row for key, row in pending.items()}, **others}

    assert (len(batch), dict(batch), list(batch)) == (len(rows), rows, list(rows))
    assert (list(batch.items()), list(batch.values())) == (list(rows.items()), list(rows.values()))
    assert (None in batch.values()) == (None in rows.values())
    assert all(batch[key] == row and key in batch for key, row in rows.items())
    assert all(OFFSETS + key not in batch for key in rows)
    assert all(batch.get(DATA + key[1:]) == rows.get(DATA + key[1:]) for key in rows)


def test_a_put_after_it_was_made_shows() -> None:
    """Nothing is copied, so whoever keeps it has to copy it."""
    pending: dict[bytes, bytes | None] = {}
    batch = NamespacedRows(pending)
    pending[b"k"] = b"v"

    assert dict(batch) == {DATA + b"k": b"v"}
