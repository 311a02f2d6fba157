"""What a store writes down about itself, and the check at each opening (COM-13, COM-14)."""

import json
from collections.abc import Mapping
from typing import Any

from statestores.errors import StoreMismatchError, UnsupportedFormatError
from statestores.files.strict_json import parse_object
from statestores.semantics.rows.layout import (
    FORMAT_ROW,
    FORMAT_VERSION,
    KNOWN_FORMAT_VERSIONS,
    SPECIFICATION_ROW,
    pack_format_version,
)
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, EngineReader
from statestores.spi.serde import why_unreadable
from statestores.spi.specification import StoreSpecification


def read_description(reader: EngineReader) -> dict[str, str | int] | None:
    """Return the stored description of the store in an engine; ``None`` when it is empty.

    Raises:
        UnsupportedFormatError: The store was written in a format that this release does not know.
        StoreMismatchError: The engine holds data that is not a store.
        StoreCorruptedError: The description cannot be read.
    """
    version = reader.get(FORMAT_ROW)
    if version is None:
        if reader.first(b"\x00") is not None:
            raise StoreMismatchError(
                "the engine holds data, but no statestores store; choose another directory"
            )
        return None
    if version not in map(pack_format_version, KNOWN_FORMAT_VERSIONS):
        known = " and ".join(map(str, KNOWN_FORMAT_VERSIONS))
        raise UnsupportedFormatError(
            f"the store has format version {version.decode(errors='replace')!r}, and this release "
            f"knows versions {known}; upgrade statestores, or restore a snapshot"
        )
    return parse_object(reader.get(SPECIFICATION_ROW) or b"", "the stored specification")


def claim(
    engine: Engine, specification: StoreSpecification[Any, Any], durability: Durability
) -> None:
    """Write *specification* into an empty engine, or check that it is the stored one.

    A later schema of the values takes the place of the stored one.

    What is written is on disk when this returns, whatever the *durability* of later commits: an
    engine that is found empty afterwards has lost its files (LAY-23).

    Raises:
        StoreMismatchError: The stored specification differs; the message says in which fields.
    """
    wanted = specification.describe()
    stored = read_description(engine)
    text = json.dumps(wanted, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if stored is None:
        if engine.capabilities.durable_commit:
            durability = Durability.POWER_LOSS
        engine.apply(
            {FORMAT_ROW: pack_format_version(FORMAT_VERSION), SPECIFICATION_ROW: text.encode()},
            durability,
        )
        return
    check_description(stored, specification)
    if stored != wanted:
        # Before any row of the new schema is there: whoever has the old one is refused from now on.
        engine.apply({SPECIFICATION_ROW: text.encode()}, durability)


def differences(
    stored: Mapping[str, str | int],
    specification: StoreSpecification[Any, Any],
    besides: frozenset[str] = frozenset(),
    *,
    evolving: bool = True,
) -> list[str]:
    """Return in words how a stored description differs from *specification*, except in *besides*.

    That values have a schema which has evolved from the stored one is no difference (SRD-40), but
    where *evolving* is false: a store that is open goes on with the schema that it has.
    """
    wanted = specification.describe()
    found = []
    for field in sorted({*stored, *wanted} - besides):
        has, expected = stored.get(field), wanted.get(field)
        if has == expected:
            continue
        words: str | None = f"is {has!r}, expected {expected!r}"
        if evolving and field == "value" and specification.value and isinstance(has, str):
            words = why_unreadable(specification.value, has)
        if words is not None:
            found.append(f"{field} {words}")
    return found


def check_description(
    stored: Mapping[str, str | int],
    specification: StoreSpecification[Any, Any],
    besides: frozenset[str] = frozenset(),
    *,
    evolving: bool = True,
) -> None:
    """Accept a stored description that differs from *specification* at most in *besides*.

    See `differences`.

    Raises:
        StoreMismatchError: They differ; the message says in which fields.
    """
    differing = differences(stored, specification, besides, evolving=evolving)
    if differing:
        raise StoreMismatchError(
            f"the store {stored.get('name')!r} differs from its specification: "
            f"{'; '.join(differing)}; open it as it is, or write a new one"
        )
