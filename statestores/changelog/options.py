"""How a file changelog is written."""

from dataclasses import dataclass
from enum import Enum

from statestores.errors import InvalidOptionError, InvalidTypeError


class Compression(Enum):
    """How the bodies of frames are compressed. Every reader reads all of them."""

    NONE = "none"
    """Fastest to append and to read."""

    LZ4 = "lz4"
    """A third to a half of the size of JSON values, at about 0.1 microseconds a record."""

    ZSTD = "zstd"
    """A sixth to a quarter of it, at two to three times the time of LZ4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogOptions:
    """The writer's choices. What is stored describes itself, so readers need none of them."""

    segment_bytes: int = 64 * 1024 * 1024
    """A segment that would grow beyond this is sealed and the next one begun. Compaction and
    deletion work on sealed segments; opening reads the last one. A single frame may be larger."""

    compression: Compression = Compression.LZ4
    """The compression of what is appended from now on."""

    def __post_init__(self) -> None:
        """Refuse a size that no segment can have, and a compression that does not exist.

        Raises:
            InvalidOptionError: The size is not a number from 1, or the compression none.
        """
        if not isinstance(self.compression, Compression):
            raise InvalidOptionError(
                f"compression must be one of {', '.join(map(str, Compression))}, got "
                f"{self.compression!r}"
            )
        if type(self.segment_bytes) is not int or self.segment_bytes < 1:
            raise InvalidOptionError(
                f"segment_bytes must be a number of bytes from 1, got {self.segment_bytes!r}"
            )


def check_changelog_options(options: object) -> None:
    """Accept `ChangelogOptions`, and ``None`` for those that are there.

    Raises:
        InvalidTypeError: It is something else, such as a dictionary.
    """
    if options is not None and not isinstance(options, ChangelogOptions):
        raise InvalidTypeError(
            "changelog_options must be statestores.changelog.ChangelogOptions, such as "
            f"ChangelogOptions(segment_bytes=1 << 20), got {options!r}"
        )
