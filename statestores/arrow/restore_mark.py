"""The mark of a store into which a restore has put some rows and not all (SNP-12).

It is kept among the committed offsets, because those are committed together with rows: the first
rows of a snapshot bring it, and the commit of the last ones removes it as it brings the real
offsets. So a half-restored store has no committed offset, and a mark that says why.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from statestores.errors import StoreMismatchError
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import StateStore


def restore_mark(specification: StoreSpecification[Any, Any]) -> TopicPartition:
    """Return the partition whose committed offset is the mark.

    No topic can have its name: ``#`` is not in Kafka's alphabet.
    """
    return TopicPartition(f"{specification.name}#restoring", 0)


def check_not_half_restored(
    specification: StoreSpecification[Any, Any], offsets: Mapping[TopicPartition, int]
) -> None:
    """Accept a store, by its committed *offsets*, that no restore has left half-way.

    Raises:
        StoreMismatchError: A restore has.
    """
    if restore_mark(specification) in offsets:
        raise StoreMismatchError(
            f"the store {specification.name!r} is half restored: it holds some rows of a snapshot "
            "and not all; call restore() again, which starts over, or truncate() it"
        )


def has_rows(store: StateStore) -> bool:
    """Return whether *store* has committed rows."""
    with closing(store.committed_content().changes) as changes:
        return any(len(chunk) for chunk in changes)
