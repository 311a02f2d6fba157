"""Columns that a user names, found in a DataFrame as Spark finds them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def own_name(frame: "DataFrame", name: str) -> str:
    """Return what *frame* calls the column that a user calls *name*, which stays if there is none.

    A column of exactly that name is meant before all others. Otherwise it is the only one whose
    name differs in case alone, unless the session minds case: ``spark.sql.caseSensitive``.
    """
    names = frame.schema.names
    if name in names or minds_case(frame):
        return name
    found = [each for each in names if each.lower() == name.lower()]
    return found[0] if len(found) == 1 else name


def minds_case(frame: "DataFrame") -> bool:
    """Return whether ``Id`` and ``id`` are two names to the session of *frame*."""
    return frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
