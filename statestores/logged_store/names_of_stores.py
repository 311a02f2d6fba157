"""What a logged store says when it is taken for its store: `logged.get(key)`.

As with Kafka's names (`statestores.spi.foreign_names`) these are descriptors of the class, so that
no other attribute is slower, and `hasattr` is false. Type checkers see none of them.
"""

from typing import Any, NoReturn

from statestores.spi.foreign_names import FOREIGN_NAMES
from statestores.spi.stores.key_value import KeyValueStore
from statestores.spi.stores.session import SessionStore
from statestores.spi.stores.timestamped_key_value import TimestampedKeyValueStore
from statestores.spi.stores.versioned import VersionedStore
from statestores.spi.stores.window import WindowStore

_CONTRACTS: tuple[type[Any], ...] = (
    KeyValueStore,
    TimestampedKeyValueStore,
    VersionedStore,
    WindowStore,
    SessionStore,
)


class NameOfStore:
    """An attribute that only the store of a logged store may have."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, logged: object, kind: type[Any] | None = None) -> NoReturn:
        raise AttributeError(
            f"a logged store has no {self._name!r}, which is for its store to have: write "
            f".store.{self._name}",
            name=self._name,
            obj=logged,
        )


def with_names_of_stores(kind: type[Any]) -> None:
    """Have *kind* answer to what stores of any kind have, and it has not, with where that is."""
    for contract in _CONTRACTS:
        for name in dir(contract):
            if not name.startswith("_") and name not in FOREIGN_NAMES and name not in dir(kind):
                setattr(kind, name, NameOfStore(name))
