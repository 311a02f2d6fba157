"""The formats of exported files, and how one is told from a name or from the first bytes."""

from pathlib import Path
from typing import Literal, TypeAlias, get_args

from statestores.errors import InvalidArgumentError

FileFormat: TypeAlias = Literal["arrow", "parquet"]
"""Arrow's IPC file format with LZ4 columns, or Parquet with Zstandard ones."""

_SUFFIXES: dict[str, FileFormat] = {
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_ARROW_MAGIC = b"ARROW1"
_PARQUET_MAGIC = b"PAR1"


def check_format(file_format: str) -> FileFormat:
    """Return *file_format*, if it is one.

    Raises:
        InvalidArgumentError: It is not.
    """
    for known in get_args(FileFormat):
        if file_format == known:
            return known  # type: ignore[no-any-return]  # one of the literals
    raise InvalidArgumentError(f"file_format must be 'arrow' or 'parquet', got {file_format!r}")


def format_from_name(path: Path) -> FileFormat:
    """Return the format that the name of *path* ends in.

    Raises:
        InvalidArgumentError: It ends in none.
    """
    try:
        return _SUFFIXES[path.suffix.lower()]
    except KeyError:
        raise InvalidArgumentError(
            f"cannot tell the format of {str(path)!r} from its name; end it in .arrow or "
            ".parquet, or give the file_format (--format); lines of CSV are what scan --csv prints"
        ) from None


def format_from_content(path: Path) -> FileFormat:
    """Return the format of the file *path*, by its first bytes.

    Raises:
        InvalidArgumentError: It has neither.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(len(_ARROW_MAGIC))
    if start == _ARROW_MAGIC:
        return "arrow"
    if start.startswith(_PARQUET_MAGIC):
        return "parquet"
    raise InvalidArgumentError(
        f"{str(path)!r} is neither an Arrow IPC file nor a Parquet file, it begins with {start!r}; "
        "pyarrow or pandas make one of it"
    )
