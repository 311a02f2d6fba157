"""The names of a log's objects, below the root of its storage (OBJ-2).

    <store>/checkpoint                  the only object that is replaced
    <store>/root/<k>                    entry k of the root log, from 0
    <store>/own/<partition>/<grant>/<i> entry i of the owner whose grant that is
    <store>/data/<write id>/<partition> changes that a task has staged
    <store>/segments/<id>/<partition>   what folding or compaction has made
    <store>/snapshots/<log>/<partition>/<offset>-<id>/<file>   the files of a snapshot
    <store>/generations/<id>/...        the same, of a log that a reshard has begun under that id
    <store>/generations/<id>/scratch/<attempt>/<i>   rows that this reshard moves

Numbers have twenty digits, so that a listing has them in order.
"""

from dataclasses import dataclass, field

_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one store's log."""

    store: str
    """The store's name."""

    url: str = ""
    """Where they lie, for messages."""

    generation: str = ""
    """The id under which a reshard has made this log; empty for the first one of the store."""

    home: str = field(init=False, repr=False, compare=False)
    """What all of them begin with, without a slash at the end."""

    def __post_init__(self) -> None:
        home = f"{self.generations}{self.generation}" if self.generation else self.store
        object.__setattr__(self, "home", home)

    @property
    def generations(self) -> str:
        """What the names of all logs that reshards have begun begin with."""
        return f"{self.store}/generations/"

    def generation_of(self, name: str) -> str:
        """Return the id of the reshard that has put the object *name* below `generations`."""
        return name.removeprefix(self.generations).partition("/")[0]

    def shown(self, name: str) -> str:
        """Return *name* as messages show it."""
        return repr(f"{self.url}/{name}")

    @property
    def checkpoint(self) -> str:
        """The checkpoint."""
        return f"{self.home}/checkpoint"

    @property
    def roots(self) -> str:
        """What the entries of the root log begin with."""
        return f"{self.home}/root/"

    @property
    def owned(self) -> str:
        """What the entries of owners begin with."""
        return f"{self.home}/own/"

    @property
    def staged(self) -> str:
        """What staged changes begin with."""
        return f"{self.home}/data/"

    def staged_by(self, name: str) -> str:
        """Return the id of the write that has staged the object *name*."""
        return name.removeprefix(self.staged).partition("/")[0]

    @property
    def segments(self) -> str:
        """What segments begin with."""
        return f"{self.home}/segments/"

    @property
    def scratch(self) -> str:
        """What the rows begin with that the reshard moves which makes the log."""
        return f"{self.home}/scratch/"

    @property
    def all_snapshots(self) -> str:
        """What the snapshots of all partitions begin with."""
        return f"{self.home}/snapshots/"

    def snapshots(self, log: str, partition: int) -> str:
        """Return what the snapshots of *partition* of the log with that id begin with."""
        return f"{self.all_snapshots}{log}/{partition}/"

    def root(self, number: int) -> str:
        """Return the name of entry *number* of the root log."""
        return f"{self.home}/root/{number:020d}"

    def own(self, partition: int, grant: int, number: int) -> str:
        """Return the name of entry *number* of the owner of *partition* under *grant*."""
        return f"{self.home}/own/{partition}/{grant:020d}/{number:020d}"

    def data(self, write: str, partition: int) -> str:
        """Return the name of what *write* has staged for *partition*."""
        return f"{self.staged}{write}/{partition}"

    def segment(self, unique: str, partition: int) -> str:
        """Return the name of the segment of *partition* with the *unique* id."""
        return f"{self.segments}{unique}/{partition}"


def numbers_in(name: str, prefix: str) -> tuple[int, ...] | None:
    """Return the numbers in *name* after *prefix*; ``None`` if it is none of ours."""
    parts = name.removeprefix(prefix).split("/")
    if not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return tuple(map(int, parts))


def write_id(begun_at: int, nonce: str) -> str:
    """Return the id of a write that began when the root log had *begun_at* entries."""
    return f"{begun_at:0{_DIGITS}d}-{nonce}"


def begun_at(write: str) -> int:
    """Return where the root log was when *write* began; ``-1`` for what is no id of a write."""
    number = write.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() else -1


def operator_write_id(operator: str, begun: int, nonce: str) -> str:
    """Return the id under which *operator* stages a micro-batch that follows its first *begun*.

    Such a write is never voided: whether it can count still is said by the operator's batches.
    """
    return f"{operator}@{write_id(begun, nonce)}"


def operator_of(write: str) -> tuple[str, int] | None:
    """Return whose id of `operator_write_id` *write* is, and when it began; ``None`` for others."""
    operator, at, rest = write.partition("@")
    begun = begun_at(rest)
    return (operator, begun) if at and begun >= 0 else None


def operator_stream(operator: str) -> str:
    """Return the stream of which the records of *operator* are the batches, by their numbers."""
    return f"@stateful/{operator}"
