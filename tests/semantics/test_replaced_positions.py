"""A position that is said anew by whoever knows what the content reflects."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.spi import TopicPartition

A, B, C = (TopicPartition(name, 0) for name in "abc")


def _below(store: Any) -> Any:
    return store_of_bytes(store)


@pytest.mark.spec("COM-11", "KFK-50")
def test_a_replaced_position_goes_back_with_the_commit(tmp_path: Path) -> None:
    """It is pending until then, a rollback forgets it, and others stay what they are."""
    with ss.open_store(tmp_path, ss.KeyValue("s"), backend="sqlite") as store:
        store.advance_position({A: 9, B: 9, C: 9})
        store.commit({})
        _below(store).replace_position({A: 1, B: None})
        assert store.position == {A: 1, C: 9}
        assert store.read_only().position == {A: 9, B: 9, C: 9}
        store.rollback()
        assert store.position == {A: 9, B: 9, C: 9}
        _below(store).replace_position({A: 1, B: None})
        store.commit({})
        store.advance_position({A: 0})
    with ss.open_store(tmp_path, ss.KeyValue("s"), backend="sqlite") as store:
        assert store.position == {A: 1, C: 9}
        _below(store).replace_position({A: None, C: None})
        store.commit({})
    with ss.open_store(tmp_path, ss.KeyValue("s"), backend="sqlite") as store:
        assert store.position == {}


@pytest.mark.spec("COM-15", "COM-19")
def test_a_malformed_position_replaces_nothing() -> None:
    """A partition is judged also where there is no offset."""
    wrong: list[tuple[type[Exception], dict[Any, Any]]] = [
        (InvalidArgumentError, {A: -1}),
        (InvalidTypeError, {A: "1"}),
        (InvalidTypeError, {"a": None}),
    ]
    with ss.open_store("unused", ss.KeyValue("s"), backend="memory") as store:
        store.advance_position({A: 9})
        below = _below(store)
        for error, position in wrong:
            with pytest.raises(error):
                below.replace_position(position)
        assert store.position == {A: 9}
    with pytest.raises(StoreClosedError):
        below.replace_position({})
