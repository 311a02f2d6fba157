"""A schema grown by what a column brings, as tables do it with ``mergeSchema`` (SRD-40)."""

from dataclasses import replace

from statestores.errors import InvalidArgumentError
from statestores.serdes.rows.evolution import is_widened
from statestores.serdes.rows.schema import Field, ListType, MapType, RowType, StructType


def merged(schema: StructType, column: StructType) -> tuple[StructType, list[str]]:
    """Return *schema* with the fields and the wider types of *column*, and what is new, in words.

    Fields are found by their names, new ones come last and may be null. A nullable field that the
    column lacks will be null there.

    Raises:
        InvalidArgumentError: A type is neither the other nor wider or narrower, or the column lacks
            a field that cannot be null; the message names it.
    """
    news: list[str] = []
    return _struct(schema, column, "", news), news


def _struct(schema: StructType, column: StructType, path: str, news: list[str]) -> StructType:
    brought = {field.name: field for field in column.fields}
    fields = []
    for field in schema.fields:
        given = brought.pop(field.name, None)
        if given is None and not field.nullable:
            raise InvalidArgumentError(
                f"the field {path + field.name!r} is missing, and cannot be null"
            )
        if given is not None:
            kind = _type(field.type, given.type, f"{path}{field.name}", news)
            field = replace(field, type=kind)  # noqa: PLW2901  # the same field, grown
        fields.append(field)
    for given in brought.values():
        news.append(f"the new field {path + given.name!r}, {given.type}")
        fields.append(Field(given.name, given.type, nullable=True))
    return StructType(tuple(fields))


def _type(old: RowType, new: RowType, path: str, news: list[str]) -> RowType:
    if isinstance(old, StructType) and isinstance(new, StructType):
        return _struct(old, new, f"{path}.", news)
    if isinstance(old, ListType) and isinstance(new, ListType):
        return replace(old, values=_type(old.values, new.values, f"{path}.element", news))
    if isinstance(old, MapType) and isinstance(new, MapType):
        keys = _type(old.keys, new.keys, f"{path}.key", news)
        return replace(old, keys=keys, values=_type(old.values, new.values, f"{path}.value", news))
    if old == new or is_widened(new, old):
        return old
    if is_widened(old, new):
        news.append(f"the field {path!r} as {new}, which is {old} there")
        return new
    if _instants(old, new):
        return old
    raise InvalidArgumentError(
        f"the field {path!r} is {new}, and {old} in the store; a type may only grow: whole "
        "numbers, float to double, and the digits of a decimal before its point. Cast it"
    )


def _instants(old: RowType, new: RowType) -> bool:
    """Whether both are instants: the zone is only how they are shown."""
    zones = [getattr(kind, "zone", None) for kind in (old, new)]
    return None not in zones
