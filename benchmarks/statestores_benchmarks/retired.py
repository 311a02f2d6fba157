"""Which targets no design can reach: nowhere else is it said, and the page's table is made of it.

A floor is a program that does what the contract asks and no more, on the same driver, in the same
run. A target is retired only where the floor misses it in every run that counts, and in two runs at
least unless it misses by more than a quarter. Where there are idle runs, these count and no others.
`Retired` refuses everything else, so a run that has the floor within the target brings the target
back (docs/decisions/0216-a-target-comes-back-with-its-floor.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from statestores_benchmarks.cases import FLOOR_FACTOR, Target

_BY_FAR = 1.25
"""A floor that misses by this factor needs no second run: rounds differ by less."""

_FEWEST_RUNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """A target that was retired, and the floor that shows why."""

    what: str
    """What was to be reached: the row of the table."""

    at_most: float | None = None
    """The first target, if it was one from above."""

    at_least: float | None = None
    """The first target, if it was one from below."""

    floors: Sequence[float]
    """The floor's medians in the runs that count, the oldest first."""

    how: str
    """What the floor is, and on which machine."""

    is_constant: bool = False
    """Whether no run measures the floor beside what was reached: the last one holds then."""

    of: str = "the floor"
    """What the floor is called where it is asked for instead."""

    reached: str = ""
    """What was reached of that, the oldest run first."""

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError(f"{self.what!r} needs either at_most or at_least")
        if min(self._misses) < 1:
            raise ValueError(
                f"a floor of {self.what!r} is within the target; the target is to be asked for"
            )
        if len(self.floors) < _FEWEST_RUNS and min(self._misses) < _BY_FAR:
            raise ValueError(f"one run does not retire {self.what!r}; measure its floor once more")

    @property
    def _misses(self) -> list[float]:
        """By which factor each floor misses the target."""
        if self.at_most is not None:
            return [floor / self.at_most for floor in self.floors]
        return [(self.at_least or 0) / floor for floor in self.floors]

    def bounds(self, target: Target) -> bool:
        """Return whether *target* is the one that was retired."""
        return (target.at_most, target.at_least) == (self.at_most, self.at_least)

    @property
    def from_the_last_floor(self) -> float:
        """What is asked for instead, where no run measures the floor."""
        last = self.floors[-1]
        return last * FLOOR_FACTOR if self.at_least is None else last / FLOOR_FACTOR

    @property
    def instead(self) -> str:
        """What is asked for instead."""
        if not self.is_constant:
            return f"≤ {FLOOR_FACTOR} of {self.of}"
        return f"{self._sign} {self.from_the_last_floor:.3g} ×"

    @property
    def _sign(self) -> str:
        return "≤" if self.at_least is None else "≥"

    def row(self) -> str:
        """Return what stands in the table."""
        bound = self.at_most if self.at_least is None else self.at_least
        floors = ", ".join(f"{floor:g}" for floor in self.floors)
        return (
            f"| {self.what} | {self._sign} {bound:g} × | {floors} | {self.how} | {self.instead} "
            f"| {self.reached} |"
        )


def asked_for(group: str, first: Target, of_the_floor: Target) -> list[Target]:
    """Return the two targets of *group*: one of them is asked for, and the other one is shown.

    Raises:
        ValueError: Another bound than that of *first* was retired.
    """
    retired = RETIRED.get(group)
    if retired is None:
        return [first, replace(of_the_floor, unasked="not asked for")]
    if not retired.bounds(first):
        raise ValueError(f"{group!r} has another target than the one that was retired")
    return [replace(first, unasked="retired"), of_the_floor]


def asked_with_floor(group: str, first: Target, row: str) -> list[Target]:
    """Return `asked_for` *first* and 1.15 of the floor that it shows, whose row is called *row*."""
    if first.floor is None:
        raise ValueError(f"the target of {group!r} names no floor")
    of_the_floor = Target(case=first.case, base=first.floor, at_most=FLOOR_FACTOR, row=row)
    return asked_for(group, first, of_the_floor)


def table() -> str:
    """Return what was retired, with the floors."""
    lines = [
        "| what | first target | floor, by runs | what it is | target now | reached |",
        "|---|--:|--:|---|--:|--:|",
    ]
    return "\n".join([*lines, *(retired.row() for retired in RETIRED.values())])


_KAFKA = "against Kafka Streams' store"
_MANY = "`put_many` of 1,000 with commit, against single puts"
_TWICE_IDLE = "nine rounds a run, twice idle, 29 November"

RETIRED: dict[str, Retired] = {
    "spark-builtin": Retired(
        what="Spark reads a store, against its own reader",
        at_least=3,
        floors=(1.6,),
        how="a Python source with its batches ready, idle, 22 November",
        is_constant=True,
        reached="1.35 × **missed**",
    ),
    "spark-lookup": Retired(
        what="Spark looks up one of 10 million keys, against a read of all",
        at_most=0.02,
        floors=(0.0445,),
        how="a Python source of one row (112 ms), idle, 22 November",
        is_constant=True,
        reached="0.0409 ×",
    ),
    "changelog-append": Retired(
        what="changelog append, lz4, against records written one by one",
        at_most=0.05,
        floors=(0.11, 0.112),
        how=f"columns, message, checksum and write by bare pyarrow, {_TWICE_IDLE}",
        reached="1.11, 1.17 **missed** once of two",
    ),
    "growth-get": Retired(
        what="get from 10 million rows against 100,000",
        at_most=1.5,
        floors=(3.75,),
        how="rocksdict's own gets (15 against 4 µs), full run of 22 November",
        of="rocksdict's get",
        reached="0.523",
    ),
    "timestamped-get-even": Retired(
        what="get as of any time, against Quix Streams",
        at_least=5,
        floors=(1.9, 1.74),
        how=f"rocksdict on the same rows (a get, a seek, JSON), {_TWICE_IDLE}",
        reached="1.07, 1.21 **missed** once of two",
    ),
    "kafka-key-value-put": Retired(
        what=f"key-value put, {_KAFKA}",
        at_most=0.6,
        floors=(0.81, 0.747, 0.82, 0.84),
        how="a dictionary and bare batches, idle, [every row has one](#every-row-has-a-floor)",
        reached="1.17, 1.06, 1.00, 1.04, 1.14, of 300,000 rows 1.14",
    ),
    "kafka-window-fetch": Retired(
        what=f"window fetch, {_KAFKA}",
        at_most=1,
        floors=(1.38, 1.35),
        how="the driver's get, idle; 1.15 and 1.35 with a load",
        reached="0.2, 0.27",
    ),
    "rocksdb-versioned-put-many": Retired(
        what=f"versions, RocksDB: {_MANY}",
        at_most=0.75,
        floors=(0.862, 0.825),
        how=f"what the contract asks, by the driver's calls, {_TWICE_IDLE}, "
        "[like the next three](#what-any-put-of-many-rows-must-do)",
        reached="1.10, 1.12",
    ),
    "rocksdb-key-value-put-many": Retired(
        what=f"key-value, RocksDB: {_MANY}",
        at_most=0.75,
        floors=(0.813, 0.82),
        how=f"likewise, {_TWICE_IDLE}",
        reached="1.07, 1.11",
    ),
    "rocksdb-window-put-many": Retired(
        what=f"windows, RocksDB: {_MANY}",
        at_most=0.75,
        floors=(0.814, 0.786),
        how=f"likewise, {_TWICE_IDLE}",
        reached="1.07, 1.21 **missed** once of two",
    ),
    "leveldb-versioned-put-many": Retired(
        what=f"versions, LevelDB: {_MANY}",
        at_most=0.75,
        floors=(0.784, 0.822),
        how=f"likewise, {_TWICE_IDLE}",
        reached="1.22, 1.08 **missed** once of two",
    ),
    "leveldb-versioned-put": Retired(
        what="versions, Zipf, LevelDB: put, against one row each",
        at_most=2.8,
        floors=(2.84, 3.35, 3.18, 3.19),
        how="what the contract asks, by the driver's calls, nine rounds a run, idle, 29 November, "
        "[like the next six](#what-any-put-of-a-stream-must-do)",
        reached="1.11, 1.17, 1.07, 1.18 **missed** twice of four",
    ),
    "rocksdb-versioned-put-late": Retired(
        what="versions, a tenth late, RocksDB: put, against one row each",
        at_most=3,
        floors=(3.19, 3.48),
        how=f"likewise, with a search for each late one, {_TWICE_IDLE}",
        reached="1.02, 1.12",
    ),
    "leveldb-versioned-put-late": Retired(
        what="versions, a tenth late, LevelDB: put, against one row each",
        at_most=3,
        floors=(4.13, 4.19),
        how=f"likewise, {_TWICE_IDLE}",
        reached="1.15 **missed** by a hair, 1.14",
    ),
    "timestamped-put-ten": Retired(
        what="put at a time, 10 versions a key, against Quix Streams",
        at_least=5,
        floors=(3.81, 3.79),
        how=f"likewise, with JSON, {_TWICE_IDLE}",
        reached="1.23, 1.13 **missed** once of two",
    ),
    "timestamped-put-zipf": Retired(
        what="put at a time, versions of 20,000 keys, Zipf, against Quix Streams",
        at_least=5,
        floors=(3.64, 3.81),
        how=f"likewise, with JSON, {_TWICE_IDLE}",
        reached="1.03, 1.07",
    ),
    "retention-ttl-rocksdb": Retired(
        what="values expire in a steady state, RocksDB, against none",
        at_most=1.5,
        floors=(1.56, 1.64),
        how=f"each row put and deleted once, by the driver, {_TWICE_IDLE}",
        reached="1.26, 1.34 **missed**",
    ),
    "snapshot-export": Retired(
        what="snapshot export, elapsed, against a bare scan",
        at_most=1.45,
        floors=(1.84, 1.62),
        how=f"scan, columns, lz4, `fsync` and a checksum by bare pyarrow, {_TWICE_IDLE}",
        reached="1.03, 0.93",
    ),
}
"""What was retired, by the name of the group that measures it."""
