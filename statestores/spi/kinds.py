"""The kinds of store, and what is true of every store of a kind.

Every difference between kinds that is no more than a fact is here: the columns of changes and rows,
their order, what a specification says besides its name and serdes. Changelogs, snapshots, Spark and
the command line make their tables from it, so that a further kind is an entry here, its semantics
and its serdes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn:
    """A column of int64 that the changes of a kind have besides key and value."""

    name: str
    """The column's name in the changelog."""

    row_name: str
    """Its name in rows, which are content."""

    attribute: str
    """The attribute of `Changes` that it comes from."""

    required: bool = True
    """Whether every row has a number."""

    is_time: bool = True
    """Whether it counts milliseconds. A number that does not is given by the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindField:
    """What the specifications of some kinds say in addition to what all of them do."""

    name: str
    """The attribute, and the field of the stored form."""

    type: type[int | str]
    """Its type in the stored form."""

    title: str
    """What people call it."""

    meaning: str
    """What it decides, as the end of a sentence that asks for it."""

    required: bool = False
    """Whether every store must have it. A time span that is absent is 0 in the stored form."""

    @property
    def is_duration(self) -> bool:
        """Whether it is a time span: units are part of names."""
        return self.name.endswith("_ms")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Kind(str):  # noqa: SLOT000  # the decorator defines them
    """A kind of store. It is its own name in stored form, and equal to it."""

    name: str = field(kw_only=False)
    """The name in stored form. It is given once and never changed, like the code."""

    code: int
    """The number in the heads of changelogs (LOG-21)."""

    numbers: tuple[NumberColumn, ...] = ()
    """The columns of changes and rows after key and value (LOG-24, SNP-9)."""

    order: tuple[NumberColumn, ...] = ()
    """What tells the rows of a key apart, and orders them. Empty where a key has one row."""

    expires_by: NumberColumn | None = None
    """The time by which rows expire; ``None`` where they never do."""

    retention: str | None = None
    """The field that says how far behind stream time rows are kept, and changes may come."""

    has_history: bool = False
    """Whether a row lasts until the next one of its key, and a deletion is a row."""

    fields: tuple[KindField, ...] = ()
    """What the kind adds to a specification, in the order of the stored form."""

    times: tuple[str, ...] = ()
    """The times that a reader is shown of each row; of two, the first and the last."""

    told_by: str | None = None
    """The field, or the column of rows, by which the kind is known where nobody names it: other
    kinds do not have it. ``None`` for the kind that is meant when there is no such sign."""

    def __new__(cls, name: str, **_: object) -> Self:
        """Make the name; the fields follow."""
        return str.__new__(cls, name)  # `super` does not know the class with slots

    @property
    def put_by(self) -> NumberColumn | None:
        """The time in whose order rows are put so that none of them makes another too late.

        ``None`` where any order will do: a time that a row need not have makes none too late.
        """
        return self.expires_by if self.expires_by and self.expires_by.required else None


_TIMESTAMP = NumberColumn(
    name="timestamp", row_name="timestamp", attribute="timestamps_ms", required=False
)
_VALID_FROM = NumberColumn(name="timestamp", row_name="valid_from", attribute="times_ms")
_WINDOW_START = NumberColumn(name="window_start", row_name="window_start", attribute="times_ms")
_SEQUENCE = NumberColumn(
    name="sequence", row_name="sequence", attribute="sequences", required=False, is_time=False
)
_SESSION_START = NumberColumn(name="session_start", row_name="session_start", attribute="times_ms")
_SESSION_END = NumberColumn(name="session_end", row_name="session_end", attribute="end_times_ms")

END_OF_ROW: Final = "valid_to"
"""The column of rows with history that says when each ends: it follows from the next one."""

_RETENTION = KindField(
    name="retention_ms",
    type=int,
    title="retention",
    meaning="how far behind the latest one a window or session is kept, and may come",
    required=True,
)

KEY_VALUE: Final = Kind("key-value", code=1)
"""The latest value of each key."""

TIMESTAMPED_KEY_VALUE: Final = Kind(
    "timestamped-key-value",
    code=3,
    numbers=(_TIMESTAMP,),
    expires_by=_TIMESTAMP,
    fields=(
        KindField(
            name="ttl_ms", type=int, title="time to live", meaning="how long a value is there"
        ),
        KindField(
            name="ttl_clock",
            type=str,
            title="time to live by",
            meaning="what the age of a value is measured by",
        ),
    ),
    times=("timestamp",),
    told_by="ttl_ms",
)
"""The latest value of each key, with a timestamp."""

VERSIONED: Final = Kind(
    "versioned",
    code=2,
    numbers=(_VALID_FROM,),
    order=(_VALID_FROM,),
    expires_by=_VALID_FROM,
    retention="history_retention_ms",
    has_history=True,
    fields=(
        KindField(
            name="history_retention_ms",
            type=int,
            title="history retention",
            meaning="how far back its history goes, which also decides what comes too late",
            required=True,
        ),
    ),
    times=("valid_from", END_OF_ROW),
    told_by="history_retention_ms",
)
"""Every value of each key, within a retention."""

WINDOW: Final = Kind(
    "window",
    code=4,
    numbers=(_WINDOW_START, _SEQUENCE),
    order=(_WINDOW_START, _SEQUENCE),
    expires_by=_WINDOW_START,
    retention="retention_ms",
    fields=(
        _RETENTION,
        KindField(
            name="window_size_ms",
            type=int,
            title="window size",
            meaning="how long each window is",
            required=True,
        ),
        KindField(
            name="retain_duplicates",
            type=bool,
            title="duplicates",
            meaning="whether each put adds a value to its window",
        ),
    ),
    times=("window_start", "window_end"),
    told_by="window_start",
)
"""The values of each key in windows of one length."""

SESSION: Final = Kind(
    "session",
    code=5,
    numbers=(_SESSION_START, _SESSION_END),
    order=(_SESSION_END, _SESSION_START),
    expires_by=_SESSION_END,
    retention="retention_ms",
    fields=(_RETENTION,),
    times=("session_start", "session_end"),
    told_by="session_start",
)
"""The values of each key in sessions."""

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {kind.name: kind for kind in (KEY_VALUE, TIMESTAMPED_KEY_VALUE, VERSIONED, WINDOW, SESSION)}
)
"""Every kind by its name."""

TIME_COLUMNS: Final = frozenset(
    name
    for kind in KINDS.values()
    for column in kind.numbers
    if column.is_time
    for name in (column.name, column.row_name)
) | {END_OF_ROW}
"""The columns of changes and rows that hold times."""

DERIVED_COLUMNS: Final = frozenset(
    column.row_name for kind in KINDS.values() for column in kind.numbers if not column.is_time
) | {END_OF_ROW}
"""The columns of rows that a store makes itself: they follow from the others and their order."""

NUMBER_ATTRIBUTES: Final = tuple(
    dict.fromkeys(column.attribute for kind in KINDS.values() for column in kind.numbers)
)
"""The attributes of `Changes` that the stores of some kinds have, and others do not."""
