"""A closed store refuses at the call, also what it could answer without asking anybody."""

from collections.abc import Callable
from typing import Any

import pytest

import statestores as ss
from statestores.errors import StoreClosedError

WINDOWS = ss.Window("s", window_size_ms=10, retention_ms=100)
SESSIONS = ss.Session("s", retention_ms=100)
STAMPED = ss.TimestampedKeyValue("s")


@pytest.mark.spec("COM-15", "WIN-22")
@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.fetch(b"k", 5),
        lambda store: store.fetch_range(b"k", 0, 5),
        lambda store: store.fetch_all(0, 5),
    ],
    ids=["one", "of a key", "of all keys"],
)
def test_ranges_in_which_everything_has_expired_are_refused(read: Callable[[Any], Any]) -> None:
    """Nothing can be in them, so no pending row and no engine is asked, which would refuse."""
    store = ss.open_store("unused", WINDOWS, backend="memory")
    store.put(b"k", b"v", 5_000)
    store.commit({})
    store.close()

    with pytest.raises(StoreClosedError):
        read(store)


@pytest.mark.spec("COM-15")
def test_the_columns_of_pending_writes_are_refused() -> None:
    """They were put as columns, and are kept beside the pending writes."""
    store: Any = ss.open_store("unused", STAMPED, backend="memory")
    columns = ("as they were put",)
    store.put_rows([b"\x02k"], [bytes(8)], highest=0, highest_ms=0, size_bytes=9, columns=columns)
    assert store.pending_columns() == columns
    store.close()

    with pytest.raises(StoreClosedError):
        store.pending_columns()
    with pytest.raises(StoreClosedError):
        store.put_rows([], [], highest=0, highest_ms=0, size_bytes=0, columns=())
    with pytest.raises(StoreClosedError):
        store.pending_changes()
