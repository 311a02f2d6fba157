"""The arguments and options that several commands share, named and explained once."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer

from statestores.errors import InvalidArgumentError, InvalidOptionError
from statestores.text.times import DURATION_EXPECTED, parse_duration

DEFAULT_LIMIT = 20

PathArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="A state root, one of its stores, a partition, or a snapshot."
    ),
]
StoreOrPartitionArgument: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="PATH", help="A state root, one of its stores, or a partition."),
]
KeyArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="The key, as the store's key serde reads it; hex:... gives its bytes. "
        "Put -- before one that begins with a dash.",
    ),
]
StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--store", metavar="NAME", help="The store, when the state root has several."),
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON: a line for each row, or one document.")
]
CsvOption: TypeAlias = Annotated[
    bool, typer.Option("--csv", help="Print CSV with the fields of --json, headings first.")
]
RawOption: TypeAlias = Annotated[
    bool, typer.Option("--raw", help="Leave the serdes out: keys and values are bytes.")
]
KeyHexOption: TypeAlias = Annotated[
    bool, typer.Option("--key-hex", help="KEY is the key's bytes in hexadecimal.")
]
PartitionOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--partition",
        min=0,
        metavar="N",
        help="Look into this partition, wherever the store's partitioner would look.",
    ),
]
AsOfOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="As of this time: milliseconds, ISO 8601 (UTC), 2h ago, or yesterday 14:00.",
    ),
]
LimitOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--limit", min=0, max=1 << 62, metavar="N", help="At most so many rows; 0 for all."
    ),
]
BackendOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--backend-option",
        metavar="KEY=VALUE",
        help="An option of the backend, if the engine has to be opened. Repeatable.",
    ),
]
RootArgument: TypeAlias = Annotated[str, typer.Argument(metavar="ROOT", help="A state root.")]
LocalOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--local", metavar="DIR", help="Where the engines lie; by default in the state root."
    ),
]


def parse_backend_options(pairs: Sequence[str] | None) -> dict[str, object]:
    """Return the options of a backend that *pairs* of ``key=value`` give.

    Raises:
        InvalidOptionError: See `parse_pairs`.
    """
    return {**parse_pairs("--backend-option", pairs)}


def parse_pairs(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Return what *pairs* of ``key=value``, the values of *option*, say.

    Raises:
        InvalidOptionError: One has no equals sign, or a key is given twice.
    """
    settings: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidOptionError(f"{option} is KEY=VALUE, got {pair!r}")
        if key in settings:
            raise InvalidOptionError(f"{option} {key!r} is given twice")
        settings[key] = value
    return settings


def duration_option(option: str, text: str) -> int:
    """Return the milliseconds that *text*, the value of *option*, says.

    Raises:
        InvalidArgumentError: It is no duration.
    """
    try:
        return parse_duration(text)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{option} is {DURATION_EXPECTED}, as 90m; got {text!r}"
        ) from error


def optional_duration(option: str, text: str | None) -> int | None:
    """Return what `duration_option` does, and ``None`` where the option is not given.

    Raises:
        InvalidArgumentError: It is no duration.
    """
    return None if text is None else duration_option(option, text)
