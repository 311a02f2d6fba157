"""The store that takes the rows of a store of Kafka Streams."""

from typing import Any

from statestores.errors import InvalidArgumentError
from statestores.migration.kafka.kinds import KafkaKind
from statestores.serdes.descriptions import SPECIFICATIONS
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification

_WINDOW_SIZE = "window_size_ms"

WITH_WINDOW_SIZE = frozenset(
    kind
    for kind in KafkaKind
    if any(field.name == _WINDOW_SIZE for field in kind.store_kind.fields)
)
"""The kinds whose windows have a size, which is not in the files."""

WITH_RETENTION = frozenset(kind for kind in KafkaKind if kind.store_kind.retention is not None)
"""The kinds whose rows expire; after which time is not in the files."""


def specification_for(
    name: str,
    kind: KafkaKind,
    *,
    retention_ms: int | None = None,
    window_size_ms: int | None = None,
    retain_duplicates: bool = False,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
) -> StoreSpecification[Any, Any]:
    """Return the specification of the store that takes a Kafka store *name* of *kind*.

    Raises:
        InvalidArgumentError: The retention or the window size is missing, which Kafka Streams does
            not write down, or is given for a kind that has none; or is invalid.
    """
    needed = {"retention": kind in WITH_RETENTION, "window size": kind in WITH_WINDOW_SIZE}
    for what, given in (("retention", retention_ms), ("window size", window_size_ms)):
        if needed[what] and given is None:
            raise InvalidArgumentError(
                f"the {what} of the {kind.value} store {name!r} is missing, which Kafka Streams "
                "does not write down; take it from the application's code"
            )
        if given is not None and not needed[what]:
            raise InvalidArgumentError(
                f"the store {name!r} is of the kind {kind.value!r}, which has no {what}"
            )
    own: dict[str, Any] = {}
    if kind.store_kind.retention is not None:
        own[kind.store_kind.retention] = retention_ms
    if kind in WITH_WINDOW_SIZE:
        own.update({_WINDOW_SIZE: window_size_ms, "retain_duplicates": retain_duplicates})
    return SPECIFICATIONS[kind.store_kind](name, key=key, value=value, **own)
