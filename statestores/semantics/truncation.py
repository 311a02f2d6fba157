"""Deleting every row of a store but its description, in batches of bounded size (COM-18)."""

from itertools import islice

from statestores.errors import StoreCorruptedError
from statestores.failpoints import reach
from statestores.semantics.layout import END, OFFSETS
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine

_BATCH_ROWS = 10_000
"""Rows that one batch deletes: bounds its memory."""


def delete_all_rows(engine: Engine, name: str) -> None:
    """Delete the rows of the store *name* in *engine*, its offsets first.

    Raises:
        StoreCorruptedError: The engine has a row that it was told to delete. Going on would never
            end.
        StorageError: The engine could not write.
    """
    before = None
    while rows := [key for key, _ in islice(engine.scan(OFFSETS, END), _BATCH_ROWS)]:
        if rows[0] == before:
            raise StoreCorruptedError(
                f"the {engine.name!r} engine of {name!r} still has the row {before!r} after "
                "deleting it, so the store cannot be emptied; prove the engine by "
                "statestores_conformance"
            )
        before = rows[0]
        engine.apply(dict.fromkeys(rows), Durability.PROCESS_CRASH)
        reach("truncate.deleted")
