"""Names of options that are not ours: those of other tables, and what Spark's catalog says.

Users of other tables know some of what ours has by another name. A name is an alias only where it
means the same. Where it means nearly the same, it is refused with what to write instead: a wrong
result is worse than a question.
"""

from collections.abc import Mapping
from typing import Final

from statestores.errors import InvalidOptionError


def without_aliases(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return *options* of a read with the names that this package knows.

    Raises:
        InvalidOptionError: An alias and what it stands for are both given; its value has no
            meaning; or a name is that of something that is done otherwise here.
    """
    given = {name.lower() for name in options}
    renamed: dict[str, str] = {}
    for name, text in options.items():
        known = name.lower()
        if known in _ELSEWHERE:
            raise InvalidOptionError(f"there is no option {name!r} here: {_ELSEWHERE[known]}")
        if known not in _ALIASES:
            renamed[name] = text
            continue
        alias, target, words = _ALIASES[known]
        if target.lower() in given or target in renamed:
            raise InvalidOptionError(f"{alias!r} is another name of {target!r}; leave one out")
        if words and text.lower() not in words:
            raise InvalidOptionError(f"option {alias!r} must be {' or '.join(words)}, got {text!r}")
        renamed[target] = words.get(text.lower(), text)
    return renamed


_ALIASES: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    alias.lower(): (alias, target, words)
    for alias, target, words in (
        ("snapshotId", "offset", {}),
        ("snapshot-id", "offset", {}),
        ("versionAsOf", "offset", {}),
        ("versions", "history", {"all": "true", "latest": "false"}),
        ("as-of-timestamp", "timestampAsOf", {}),
        ("startingVersion", "startingOffset", {}),
        ("endingVersion", "endingOffset", {}),
        ("readChangeData", "readChangeFeed", {}),
    )
}
"""Other names of options, the names that they stand for, and what their words mean there."""

ALIASES: Final = tuple(alias for alias, _, _ in _ALIASES.values())
"""The other names, as users write them."""

_ELSEWHERE: Final[Mapping[str, str]] = {
    "start-snapshot-id": "it excludes the snapshot itself; give startingOffset with the offset of "
    "the first change, and readChangeFeed=true",
    "end-snapshot-id": "give endingOffset with the offset of the last change, and "
    "readChangeFeed=true",
    "maxfilespertrigger": "a micro-batch is limited by maxRecordsPerTrigger or maxBytesPerTrigger",
    "ignorechanges": "the feed gives every change with its operation; filter by that",
    "ignoredeletes": "the feed gives deletions with operation = 'delete'; filter by that",
    "skipchangecommits": "the feed gives every change with its operation; filter by that",
    "schematrackinglocation": "the columns of a store never change, and its rows only grow",
}
"""Names of options of other tables, in lower case, and what is written here instead."""


def refuse_names_of_other_writers(options: Mapping[str, str]) -> None:
    """Accept *options* of a write that are not those of another table for what is done here.

    Raises:
        InvalidOptionError: One is.
    """
    for name in options:
        instead = _WRITTEN_ELSEWHERE.get(name.lower())
        if instead is not None:
            raise InvalidOptionError(f"there is no option {name!r} here: {instead}")


_PARTS: Final = (
    "mode 'overwrite' replaces the content of all partitions; write in mode 'append', which "
    "replaces rows by their keys, and deletes those with a null value"
)
_ONCE: Final = (
    "a streaming write counts each micro-batch once by itself; give expectedOffset to a batch "
    "write, which then fails where the store has gone on"
)
_WRITTEN_ELSEWHERE: Final[Mapping[str, str]] = {
    "replacewhere": _PARTS,
    "partitionoverwritemode": _PARTS,
    "overwrite-mode": _PARTS,
    "overwriteschema": "the columns of a store never change, and its rows grow with mergeSchema",
    "merge-schema": "give mergeSchema, with which rows grow",
    "txnappid": _ONCE,
    "txnversion": _ONCE,
    "usermetadata": "a commit has the input position that it reflects, and no text",
    "maxrecordsperfile": "rows are in changelogs and snapshots, which have sizes of their own",
}
"""Names of options of writes to other tables, in lower case, and what is written here instead."""


def without_catalog_properties(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return *options* without what Spark's catalog says of a table that is being created.

    They come together with the table's provider, which nobody else says.
    """
    given = {name.lower() for name in options}
    if "provider" not in given:
        return options
    return {name: text for name, text in options.items() if name.lower() not in _CATALOG}


_CATALOG: Final = frozenset(
    {
        "provider",
        "location",
        "owner",
        "comment",
        "collation",
        "external",
        "is_managed_location",
        "table_type",
    }
)
"""The properties of tables that Spark keeps for itself."""
