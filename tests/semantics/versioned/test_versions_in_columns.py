"""Columns of versions: whatever the order of their times, they do what a loop of puts does."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

import statestores as ss

_SPECIFICATION = ss.Versioned("versions", history_retention_ms=6)
_VERSIONS = st.tuples(
    st.sampled_from([b"a", b"b", b"c"]),
    st.none() | st.sampled_from([b"1", b"2"]),
    st.integers(0, 12),
)

_COUNTED = {"put-total", "dropped-records-total"}


def counted(store: ss.VersionedStore[bytes, bytes]) -> dict[str, float]:
    """Return how many versions were put, and how many came too late."""
    return {each.name: each.value for each in store.metrics() if each.name in _COUNTED}


@given(batches=st.lists(st.lists(_VERSIONS, max_size=5), max_size=4), are_sorted=st.booleans())
def test_columns_do_what_a_loop_does(
    batches: list[list[tuple[bytes, bytes | None, int]]],
    *,
    are_sorted: bool,
) -> None:
    """All that is accepted is taken at once, in whatever order it comes; nobody can tell."""
    with (
        TemporaryDirectory() as directory,
        ss.open_store(Path(directory) / "one", _SPECIFICATION, backend="memory") as one,
        ss.open_store(Path(directory) / "many", _SPECIFICATION, backend="memory") as many,
    ):
        for number, batch in enumerate(batches):
            rows = sorted(batch, key=lambda row: row[2]) if are_sorted else batch
            accepted = sum(one.put(*row).accepted for row in rows)
            found = many.put_many(
                [key for key, _, _ in rows],
                [value for _, value, _ in rows],
                [time_ms for _, _, time_ms in rows],
            )

            assert found == accepted
            assert many.pending_changes() == one.pending_changes()
            assert counted(many) == counted(one)
            if number % 2:
                one.commit({})
                many.commit({})
            assert many.stream_time_ms == one.stream_time_ms
            assert list(many.range_history()) == list(one.range_history())
