"""Which options of a read go together."""

from typing import Final

from statestores.errors import InvalidOptionError

_CHANGE_FEED_ONLY: Final = frozenset(
    {
        "startingOffset",
        "endingOffset",
        "startingTimestamp",
        "endingTimestamp",
        "beforeImage",
        "inputPosition",
        "commitColumns",
    }
)
"""What says which changes, and what of them."""
CONTENT_ONLY: Final = frozenset(
    {
        "asOf",
        "history",
        "offset",
        "freshness",
        "offsetColumn",
        "partitionColumn",
        "splits",
        "maxRowsPerTask",
        "memoryPerTask",
        "timestampAsOf",
    }
)
"""What says of which content, or how it is read."""
_OF_METADATA: Final = frozenset(
    {"metadata", "path", "storeName", "storageOptions", "storageSecrets"}
)
"""What says where metadata are, which is all that there is to say."""

_EXCLUSIVE: Final = {
    "asOf": frozenset({"history"}),
    "readChangeFeed": CONTENT_ONLY,
    "key": frozenset({"keys", "keyPrefix", "keyFrom", "keyTo"}),
    "keys": frozenset({"keyPrefix", "keyFrom", "keyTo"}),
    "keyPrefix": frozenset({"keyFrom", "keyTo"}),
    "offset": frozenset({"freshness", "timestampAsOf"}),
    "freshness": frozenset({"timestampAsOf"}),
    "splits": frozenset({"maxRowsPerTask"}),
    "startingOffset": frozenset({"startingTimestamp"}),
    "endingOffset": frozenset({"endingTimestamp"}),
}


def check_combination(given: frozenset[str]) -> None:
    """Refuse options of a read, those that say something, if they do not go together.

    Raises:
        InvalidOptionError: They contradict each other, or one cannot be right.
    """
    if "pushFilters" in given:
        raise InvalidOptionError(
            "the option 'pushFilters' cannot be true: PySpark keeps the filters of one query for "
            "the other queries of the DataFrame, which would get wrong rows; leave it out, and "
            "say what to read with the options 'key', 'keys', 'keyPrefix', 'keyFrom' and 'keyTo'"
        )
    if "metadata" in given and (more := sorted(given - _OF_METADATA)):
        raise InvalidOptionError(
            f"the option {more[0]!r} does not go with 'metadata', whose rows are not those of a "
            "store; leave it out, and filter the rows"
        )
    for one, excluded in _EXCLUSIVE.items():
        if one in given and (both := sorted(given & excluded)):
            raise InvalidOptionError(
                f"the options {one!r} and {both[0]!r} exclude each other; leave one out"
            )
    if "readChangeFeed" not in given and (feed := sorted(given & _CHANGE_FEED_ONLY)):
        raise InvalidOptionError(
            f"the option {feed[0]!r} is for the change feed; add readChangeFeed=true, or give "
            "offset= for the content at an offset"
        )
