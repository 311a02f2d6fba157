"""The documents of a snapshot: JSON with its own checksum, and exactly one legal spelling.

So no damaged byte of one can go unseen, those between the values included. The spelling, and the
field ``crc32c`` and its meaning, are the same in every version of every such document (SNP-8).
"""

import json
from typing import Any, TypeAlias

import google_crc32c

from statestores.errors import SnapshotCorruptedError

ADVICE = "use another snapshot, or restore from the changelog"
"""What an error about a damaged snapshot ends with."""

CHECKSUM = "crc32c"
"""The field with the checksum of the document without it."""

Json: TypeAlias = dict[str, Any]  # as `json` gives it; checked field by field by whoever reads it


def with_checksum(content: Json) -> bytes:
    """Return the bytes of a file that holds *content* and its checksum."""
    return _spell({**content, CHECKSUM: _checksum(content)})


def read_checked(data: bytes, where: str) -> Json:
    """Return the content of a file without its checksum, which must match.

    Raises:
        SnapshotCorruptedError: The bytes are not those that a writer wrote.
    """
    try:
        content = json.loads(data)
        spelled = _spell(content)
    except (ValueError, RecursionError) as error:
        raise SnapshotCorruptedError(f"{where} is not JSON: {error}; {ADVICE}") from error
    if not isinstance(content, dict) or spelled != data:
        raise SnapshotCorruptedError(
            f"{where} is not spelled as a writer spells it: it is damaged or was edited; {ADVICE}"
        )
    stored = content.pop(CHECKSUM, None)
    computed = _checksum(content)
    if stored != computed:
        raise SnapshotCorruptedError(
            f"{where} has the checksum {stored!r}, and its content {computed!r}: "
            f"it is damaged or was edited; {ADVICE}"
        )
    return content


def _spell(content: object) -> bytes:
    """Return the one legal spelling: ASCII, sorted names, an indent of one, a final newline."""
    return json.dumps(content, sort_keys=True, indent=1).encode("ascii") + b"\n"


def _checksum(content: Json) -> str:
    """Return the CRC32C of *content* in its compact spelling, as eight hexadecimal digits."""
    compact = json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")
    return f"{google_crc32c.value(compact):08x}"
