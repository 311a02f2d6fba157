"""Which schemas read the rows of which older ones (SRD-40).

A row has no number of its schema. Its bytes are such that a schema reads those of every schema that
it has evolved from: new fields come last and may be null, and types grow within a family whose
values have the same bytes.
"""

from statestores.serdes.rows.schema import (
    FLOATS,
    INTEGER_BITS,
    DecimalType,
    ListType,
    MapType,
    PlainType,
    RowType,
    StructType,
)


def why_not_evolved(old: StructType, new: StructType) -> str | None:
    """Return in words why *new* cannot read what *old* has written; ``None`` if it can."""
    return _struct(old, new, "")


def _struct(old: StructType, new: StructType, path: str) -> str | None:
    names = {field.name for field in new.fields}
    for field in old.fields:
        if field.name not in names:
            return (
                f"the stored one has the field {_at(path, field.name)}, which is missing; "
                "fields stay, under their names"
            )
    for place, field in enumerate(new.fields):
        at = _at(path, field.name)
        if place >= len(old.fields):
            if not field.nullable:
                return f"the new field {at} has to be nullable, for the rows that are there"
            continue
        before = old.fields[place]
        if before.name != field.name:
            return (
                f"the field {at} comes where {_at(path, before.name)} was; fields keep their "
                "order, and new ones come last"
            )
        why = _nullable(at, old=before.nullable, new=field.nullable)
        why = why or _type(before.type, field.type, f"{path}{field.name}.")
        if why is not None:
            return why
    return None


def _type(old: RowType, new: RowType, path: str) -> str | None:
    if old == new or is_widened(old, new):
        return None
    if isinstance(old, StructType) and isinstance(new, StructType):
        return _struct(old, new, path)
    if isinstance(old, ListType) and isinstance(new, ListType):
        return _nullable(f"{_at(path, '')} of lists", old=old.nullable, new=new.nullable) or _type(
            old.values, new.values, f"{path}element."
        )
    if isinstance(old, MapType) and isinstance(new, MapType):
        return (
            _nullable(f"{_at(path, '')} of maps", old=old.nullable, new=new.nullable)
            or _type(old.keys, new.keys, f"{path}key.")
            or _type(old.values, new.values, f"{path}value.")
        )
    return (
        f"the field {_at(path, '')} is {old} there and {new} here; a type may only grow: whole "
        "numbers, float to double, and the digits of a decimal before its point"
    )


def is_widened(old: RowType, new: RowType) -> bool:
    """Whether every value of *old* is one of *new*, with the same bytes."""
    if isinstance(old, PlainType) and isinstance(new, PlainType):
        before, after = INTEGER_BITS.get(old.text, 0), INTEGER_BITS.get(new.text, 0)
        return 0 < before < after or (old.text, new.text) == FLOATS
    return (
        isinstance(old, DecimalType)
        and isinstance(new, DecimalType)
        and old.scale == new.scale
        and old.precision < new.precision
    )


def _nullable(at: str, *, old: bool, new: bool) -> str | None:
    if old and not new:
        return f"the field {at} may be null there and not here; what may be null stays so"
    return None


def _at(path: str, name: str) -> str:
    """Return the field *name* below *path*, or *path* itself, as messages show it."""
    return repr(f"{path}{name}" if name else path.removesuffix("."))
