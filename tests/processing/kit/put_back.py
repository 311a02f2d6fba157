"""States and topics of which something has gone, or was put back from an older copy.

A topology with a source, a sink, a repartition topic, a timer and tasks of several stores is run
three times, each time with new input, and copied after each. Then the second copy is changed in one
place, and the third run is done on that. What it may come to: the results of the undisturbed runs,
or an error of the tree.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import statestores as ss
from statestores.errors import StateStoreError
from statestores.files.directory_lock import LOCK_FILE
from statestores.processing import (
    Context,
    LocalTopics,
    Processor,
    Record,
    Topic,
    Topology,
    run,
)
from statestores.processing.local import AtLeastOnce, JsonLines, StoredRecord

LINES = Topic("lines", key=ss.utf8, value=ss.json)
ORDERS = Topic("orders", key=ss.utf8, value=ss.int64, partitions=2)
SUMS = Topic("sums-out", key=ss.utf8, value=ss.int64)
WORDS = Topic("words-out", key=ss.utf8, value=ss.int64)
TICKS = Topic("ticks-out", key=ss.utf8, value=ss.int64)
OUTPUTS = (SUMS, WORDS, TICKS)

RUNS = 3
"""The first is copied to be put back, the second is what it is put back into."""

EQUAL = "equal"
"""The results are those of undisturbed runs."""

WRONG = "WRONG"
"""They are others, and nobody was told."""

_KEYS = "abcdefgh"


class Ticker(Processor[str, int, str, int]):
    """Says every ten milliseconds of stream time how many records there were."""

    seen = ss.KeyValue("seen", key=ss.utf8, value=ss.int64)

    def open(self, context: Context[str, int]) -> None:
        """Begin the timer."""
        context.every(10, self.tick)

    def process(self, record: Record[str, int]) -> None:
        """Count."""
        self.store(self.seen).put("all", (self.store(self.seen).get("all") or 0) + 1)

    def tick(self, time_ms: int) -> None:
        """Say it."""
        self.forward(Record("all", self.store(self.seen).get("all") or 0, time_ms))


def topology() -> Topology:
    """Return the topology."""
    shop = Topology("shop")
    orders = shop.stream(ORDERS)
    orders.group_by_key().sum("value", ss.KeyValue("sums", key=ss.utf8, value=ss.int64)).to(SUMS)
    orders.process(Ticker).to(TICKS)
    words = shop.stream(LINES).group_by("value.word", key=ss.utf8)
    words.count(ss.KeyValue("words", key=ss.utf8, value=ss.int64)).to(WORDS)
    return shop


@dataclass(frozen=True, slots=True)
class Results:
    """What runs have come to."""

    topics: dict[str, Counter[tuple[str, int]]]
    """What each output topic has."""

    given: Counter[tuple[str, int]]
    """What the sink was given by the last run."""

    stores: dict[str, dict[str, str]]
    """What each store of the user has."""


def feed(directory: Path, number: int) -> None:
    """Add the input of the run *number*."""
    (directory / "files").mkdir(exist_ok=True)
    lines = [json.dumps({"key": key, "word": f"w{ord(key) % 3}", "at": number}) for key in _KEYS]
    (directory / "files" / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    with LocalTopics(directory / "topics") as topics:
        topics.topic(ORDERS).append(
            Record(key, number + 1, number * 20 + place) for place, key in enumerate(_KEYS)
        )


def process(directory: Path, backend: str) -> Results:
    """Run until idle, and return the results.

    Raises:
        StateStoreError: The run is refused, or fails.
    """
    given: list[StoredRecord[str, int]] = []
    run(
        topology(),
        state=directory / "state",
        topics=directory / "topics",
        sources={"lines": JsonLines(directory / "files", key="key", time="at")},
        sinks={"sums-out": AtLeastOnce(given.append)},
        until="idle",
        backend=backend,
    )
    found: dict[str, Counter[tuple[str, int]]] = {}
    with LocalTopics(directory / "topics") as topics:
        for topic in OUTPUTS:
            rows = (each.record for each in topics.topic(topic).read())
            found[topic.name] = Counter((row.key, row.value) for row in rows)
    stores: dict[str, dict[str, str]] = {}
    root = ss.StateRoot.open(directory / "state")
    for name in ("sums", "seen", "words"):
        stores[name] = {}
        for number in range(root.store(name).partitions):
            with ss.open_logged_store(root, name, number, backend=backend) as logged:
                stores[name] |= {
                    f"{number}/{key}": str(value) for key, value in logged.store.range()
                }
    return Results(found, Counter((each.record.key, each.record.value) for each in given), stores)


class Copies:
    """The copies after each run, and changed ones."""

    def __init__(self, directory: Path, backend: str) -> None:
        """Make the runs in *directory*."""
        self._directory = directory
        self._backend = backend
        self._number = 0
        live = directory / "live"
        live.mkdir()
        for number in range(RUNS):
            feed(live, number)
            self.undisturbed = process(live, backend)
            shutil.copytree(live, directory / f"copy-{number}")
        feed_only = directory / f"copy-{RUNS - 2}"
        feed(feed_only, RUNS - 1)  # its third run is what is to be done

    @property
    def older(self) -> Path:
        """The copy from which something is put back."""
        return self._directory / f"copy-{RUNS - 3}"

    @property
    def newer(self) -> Path:
        """The copy into which it is put back, with the input of the run that comes next."""
        return self._directory / f"copy-{RUNS - 2}"

    def places(self) -> Iterator[Path]:
        """Iterate over all that can be put back or removed, but for the files of locks."""
        for part in ("state", "topics"):
            for path in (self.newer / part, *sorted((self.newer / part).rglob("*"))):
                if path.name != LOCK_FILE:
                    yield path.relative_to(self.newer)

    def rooms(self) -> list[Path]:
        """Return the places that people lose together: directories above engines, and notes."""
        return [
            place
            for place in self.places()
            if "engine" not in place.parts
            and ((self.newer / place).is_dir() or place.suffix in {".json", ".ends"})
        ]

    def outcome(
        self,
        *,
        removed: Iterable[Path] = (),
        emptied: Iterable[Path] = (),
        put_back: Iterable[Path] = (),
    ) -> str:
        """Return what comes of it: an error with its name, `EQUAL`, or `WRONG` and what is."""
        self._number += 1
        copy = self._directory / f"try-{self._number}"
        shutil.copytree(self.newer, copy)
        for place in (*removed, *put_back):
            _remove(copy / place)
        for place in emptied:
            is_directory = (copy / place).is_dir()
            _remove(copy / place)
            (copy / place).mkdir() if is_directory else (copy / place).touch()
        for place in put_back:
            older = self.older / place
            if older.is_dir():
                shutil.copytree(older, copy / place)
            elif older.exists():
                shutil.copy2(older, copy / place)
        try:
            found = process(copy, self._backend)
        except StateStoreError as error:
            return f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(copy)
        expected = self.undisturbed
        other = [each for each, rows in expected.topics.items() if found.topics[each] != rows]
        other += [each for each, rows in expected.stores.items() if found.stores[each] != rows]
        if found.given != expected.given:
            other.append("what the sink was given")
        return f"{WRONG}: {', '.join(other)}" if other else EQUAL


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
