"""A topology with two global tables, and the processes that share its tasks until they die."""

import json
import sys
from pathlib import Path
from typing import Any

from death_at_failpoint import die_at

import statestores as ss
from statestores.processing import DeadLetter, LocalTopics, Record, Topic, Topology, run

PARTITIONS = 3
PEOPLE_COUNT = 20
GOODS_COUNT = 5

PEOPLE = Topic("people", key=ss.utf8, value=ss.utf8, partitions=2)
PRICES = Topic("prices", key=ss.utf8, value=ss.int64, partitions=1)
SALES = Topic("sales", key=ss.utf8, value=ss.utf8, partitions=PARTITIONS)
SOLD = Topic("sold", key=ss.utf8, value=ss.utf8, partitions=PARTITIONS)
LETTERS = Topic("letters", partitions=1)


def topology() -> Topology:
    """Each sale with the price that its goods had then, and with the name of who bought."""
    made = Topology("global", errors=DeadLetter(LETTERS))
    people = made.global_table(PEOPLE, ss.KeyValue("people", key=ss.utf8, value=ss.utf8))
    prices = made.global_table(
        PRICES, ss.Versioned("prices", history_retention_ms=ss.DAY, key=ss.utf8, value=ss.int64)
    )
    sales = made.stream(SALES)
    priced = sales.join(
        prices, lambda sale, price: f"{sale} {price}", key="value", value=ss.utf8, name="price"
    )
    priced.join(
        people,
        lambda sale, name: f"{sale} {name}",
        key="key",
        value=ss.utf8,
        how="left",
        name="name",
    ).to(SOLD)
    return made


def append_tables(directory: Path, version: int) -> None:
    """Append a name of each version for each, one that is no name, and prices from a time on."""
    with LocalTopics(directory / "topics") as topics:
        people = topics.topic(PEOPLE)
        people.append(Record(f"p{at}", f"name-{version}", version) for at in range(PEOPLE_COUNT))
        people.append_bytes([Record(b"broken", b"\xff", version)])
        topics.topic(PRICES).append(
            Record(f"goods-{at}", 100 * version + at, version) for at in range(GOODS_COUNT)
        )


def append_sales(directory: Path, first: int, count: int, version: int) -> None:
    """Append so many sales, of the time of a version."""
    with LocalTopics(directory / "topics") as topics:
        topics.topic(SALES).append(
            Record(f"p{at % PEOPLE_COUNT}", f"goods-{at % GOODS_COUNT}", version)
            for at in range(first, first + count)
        )


def run_shared(directory: Path, **more: Any) -> None:
    """Share in processing what is there."""
    settings: dict[str, Any] = {
        "until": "idle",
        "backend": "sqlite",
        "commit_records": 10,
        "commit_interval_ms": 50,
    }
    run(topology(), state=directory / "state", topics=directory / "topics", **settings | more)


def written(directory: Path, topic: Topic[Any, Any]) -> list[Record[Any, Any]]:
    """Return what is in *topic*, one partition after the other."""
    with LocalTopics(directory / "topics") as topics:
        opened = topics.topic(topic)
        return [each.record for number in range(opened.partitions) for each in opened.read(number)]


def live(*, directory: str, failpoint: str | None, at: int, standbys: int = 0) -> None:
    """Share the tasks until the end; reaching *failpoint* for the *at*-th time is the end."""
    if failpoint is not None:
        die_at(failpoint, at)
    run_shared(Path(directory), until="stopped", standbys=standbys)


if __name__ == "__main__":
    live(**json.loads(sys.argv[1]))
