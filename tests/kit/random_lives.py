"""A life of a store whose rows end, with its changelog, against a naive model.

What is put, committed, rolled back, killed, lost, snapshotted and resharded is drawn; after each
step the owner and facades of both isolations show what the model has, which is a dictionary.
"""

import random
import shutil
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

import statestores as ss
from statestores.errors import StoreMismatchError
from statestores.partitioning import murmur2_partitioner
from statestores.resharding import reshard

if TYPE_CHECKING:
    from collections.abc import Callable

    from statestores.logged_store import LoggedStore

RETENTION_MS = 20
KEYS = (b"", b"\x00", b"\x00\x00", b"a", b"a\x00", b"a\x00\x01", b"ab", b"b", b"\xff", b"\xff\xff")
_AHEAD_MS = (1, 1, 2, 0, -1, -5, 1 - RETENTION_MS, 1 - RETENTION_MS, -RETENTION_MS)
"""Times of writes from stream time on: many at the horizon, which moves on by a little."""
VALUES = (b"", b"1", b"\x00", b"v" * 200, None)
INPUT = ss.TopicPartition("input", 0)

Row = tuple[tuple[bytes, int, int], bytes, int]
"""A row: what it is sorted by (key, time, and what tells those of one time apart), value, time."""

SPECIFICATIONS: dict[str, Any] = {
    "window": ss.Window("store", retention_ms=RETENTION_MS, window_size_ms=5),
    "duplicates": ss.Window(
        "store", retention_ms=RETENTION_MS, window_size_ms=5, retain_duplicates=True
    ),
    "session": ss.Session("store", retention_ms=RETENTION_MS),
    "event": ss.TimestampedKeyValue("store", ttl_ms=RETENTION_MS),
    "wall": ss.TimestampedKeyValue("store", ttl_ms=RETENTION_MS, ttl_clock="wall"),
}


def _copy_as_of_one_moment(source: Path, target: Path) -> None:
    """Copy the files of open stores, as a process that dies leaves them.

    RocksDB makes and removes files in threads of its own, and what it lists after the files were
    copied may be none of them: then the copy is made again.
    """
    while True:
        before = _files_of(source)
        with suppress(shutil.Error):  # a file that was listed is gone
            shutil.copytree(source, target)
            if _files_of(source) == before:
                return
        shutil.rmtree(target)


def _files_of(directory: Path) -> list[tuple[str, int, int]]:
    """Return the name, the size and the last change of each file below *directory*."""
    found = []
    for path in sorted(directory.rglob("*")):
        with suppress(FileNotFoundError):
            status = path.stat()
            found.append((str(path), status.st_size, status.st_mtime_ns))
    return found


@dataclass(slots=True)
class Model:
    """One partition: rows, stream time, and where the input is."""

    kind: str
    rows: dict[tuple[bytes, int, int], tuple[bytes, int]] = field(default_factory=dict)
    stream_time_ms: int | None = None
    reached: int | None = None
    count: int = 0

    def put(self, key: bytes, value: bytes | None, time_ms: int, start_ms: int) -> bool:
        """Put as the store of the kind does; return whether it is accepted."""
        expires = self.kind in {"event", "wall"}
        time_before = self.stream_time_ms
        is_late = time_before is not None and time_ms <= time_before - RETENTION_MS
        if not expires and (is_late or (self.kind == "duplicates" and value is None)):
            return False
        if not expires or value is not None:
            self.stream_time_ms = max(time_ms, time_ms if time_before is None else time_before)
        self.count += 1
        tie = {"duplicates": self.count, "session": start_ms}.get(self.kind, 0)
        place = (key, 0 if expires else time_ms, tie)
        self.rows.pop(place, None)
        if value is not None:
            self.rows[place] = (value, time_ms)
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return another one of the same rows, which nobody changes."""
        return replace(self, rows=dict(self.rows))

    def shown(self, now_ms: int) -> list[Row]:
        """Return what every read has to show, in order."""
        latest = now_ms if self.kind == "wall" else self.stream_time_ms
        return [
            (place, value, time_ms)
            for place, (value, time_ms) in sorted(self.rows.items())
            if latest is None or time_ms > latest - RETENTION_MS
        ]


def shown_by(store: Any, kind: str, *, reverse: bool) -> list[Row]:
    """Return the same of a store or a facade; the number of a duplicate is not shown."""
    if kind == "session":
        found = store.find_all_sessions(reverse=reverse)
        return [((each.key, each.end_ms, each.start_ms), each.value, each.end_ms) for each in found]
    if kind in {"window", "duplicates"}:
        found = store.fetch_all(reverse=reverse)
        return [((each.key, each.start_ms, 0), each.value, each.start_ms) for each in found]
    found = store.range(reverse=reverse)
    return [((key, 0, 0), each.value, each.timestamp_ms) for key, each in found]


class Life:
    """A store of a state root in a directory, and what it should have."""

    def __init__(self, directory: Path, kind: str, backend: str, seed: int) -> None:
        self.random, self.kind, self.backend = random.Random(seed), kind, backend
        self.now_ms, self.copies, self.directory = 1_000, 0, directory
        self.root = self.make_root()
        self.root.add_store(SPECIFICATIONS[kind], partitions=1)
        self.committed, self.current = [Model(kind)], [Model(kind)]
        self.opened: list[LoggedStore[Any]] = []
        self.open()

    def open(self) -> None:
        """Open all partitions: what was not committed is gone."""
        self.current = deepcopy(self.committed)
        durability = ss.Durability.PROCESS_CRASH
        for number in range(len(self.committed)):
            self.opened.append(
                ss.open_logged_store(
                    self.root, "store", number, backend=self.backend, durability=durability
                )
            )
        self.check()

    def make_root(self) -> ss.StateRoot:
        """Make the state root."""
        return ss.StateRoot.create(self.directory / "root-0")

    def open_root(self) -> None:
        """Look at the root anew."""
        self.root = ss.StateRoot.open(self.root.path)

    def close(self) -> None:
        """Close them."""
        while self.opened:
            self.opened.pop().close()

    def check(self) -> None:
        """Ask the owner, and facades of both isolations."""
        for logged, now, before in zip(self.opened, self.current, self.committed, strict=True):
            store: Any = logged.store
            committed, uncommitted = store.read_only(), store.read_only("read_uncommitted")
            for door, model in ((store, now), (committed, before), (uncommitted, now)):
                reverse = self.random.random() < 0.5
                expected = model.shown(self.now_ms)
                if self.kind == "duplicates":
                    expected = [((*place[:2], 0), *more) for place, *more in expected]  # type: ignore[misc]  # the same row
                assert (
                    shown_by(door, self.kind, reverse=reverse) == expected[:: -1 if reverse else 1]
                )
                assert door.stream_time_ms == model.stream_time_ms
            assert logged.position.get(INPUT) == before.reached

    def write(self) -> None:
        """Put, or delete, a row of any time around now."""
        key = self.random.choice(KEYS)
        number = murmur2_partitioner.partition(key, len(self.opened))
        model, store = self.current[number], self.opened[number].store
        base = self.now_ms if self.kind == "wall" else model.stream_time_ms or 5 * RETENTION_MS
        ahead = 1_000 if self.random.random() < 0.01 else self.random.choice(_AHEAD_MS)
        time_ms = max(0, base + ahead)
        start_ms = max(0, time_ms - self.random.choice((0, 0, 5, 40)))
        value = self.random.choice(VALUES)
        accepted = model.put(key, value, time_ms, start_ms)
        if self.kind == "session":
            assert store.put(key, start_ms, time_ms, value) == accepted
        elif self.kind in {"window", "duplicates"}:
            assert store.put(key, value, time_ms) == accepted
        else:
            store.put(key, value, time_ms)

    def commit(self) -> None:
        """Commit a partition."""
        number = self.random.randrange(len(self.opened))
        model = self.current[number]
        model.reached = (model.reached or 0) + 1
        self.opened[number].commit({INPUT: model.reached})
        self.committed[number] = deepcopy(model)

    def roll_back(self) -> None:
        """Forget what a partition has pending."""
        number = self.random.randrange(len(self.opened))
        self.opened[number].store.rollback()
        self.current[number] = deepcopy(self.committed[number])

    def die(self) -> None:
        """Go on with what a killed process leaves: a copy of its files."""
        self.copies += 1
        copied = self.directory / f"root-{self.copies}"
        _copy_as_of_one_moment(Path(self.root.path), copied)
        self.close()
        self.root = ss.StateRoot.open(copied)
        self.open()

    def lose_an_engine(self) -> None:
        """Write a snapshot, of either form, and perhaps have an engine made of it."""
        number = self.random.randrange(len(self.opened))
        form: Any = self.random.choice(("arrow", "native"))
        self.opened[number].snapshot(snapshot_format=form)
        if self.random.random() < 0.5:
            self.close()
            shutil.rmtree(self.root.partition("store", number).path / "engine")
            self.open()

    def reopen(self) -> None:
        """Close, and open again."""
        self.close()
        self.open()

    def wait(self) -> None:
        """Have the wall clock go on."""
        self.now_ms += self.random.choice((1, 5, 30))

    def reshard(self) -> None:
        """Give the store another number of partitions; what would end by that is told first."""
        self.close()
        latest = max((each.stream_time_ms or 0 for each in self.committed), default=0)
        rows = [row for each in self.committed for row in each.shown(self.now_ms)]
        ended = [row for row in rows if self.kind != "wall" and row[2] <= latest - RETENTION_MS]
        count = 2 if len(self.committed) == 1 else 1
        if ended:
            with pytest.raises(StoreMismatchError):
                reshard(self.root, "store", count, timeout_ms=0)
        report = reshard(self.root, "store", count, timeout_ms=0, drop_expired=True)
        assert report.expired == len(ended)
        times = [each.stream_time_ms for each in self.committed]
        known = [each.reached for each in self.committed if each.reached is not None]
        self.committed = [
            Model(
                self.kind,
                stream_time_ms=max((each for each in times if each is not None), default=None),
                reached=min(known, default=None),
                count=max(each.count for each in self.committed),
            )
            for _ in range(count)
        ]
        for place, value, time_ms in rows:
            number = murmur2_partitioner.partition(place[0], count)
            self.committed[number].rows[place] = (value, time_ms)
        self.open_root()
        self.open()

    def often(self) -> "list[tuple[Callable[[], None], int]]":
        """Return what may happen, and how often it does."""
        return [
            *((self.write, 55), (self.commit, 15), (self.roll_back, 4), (self.reopen, 4)),
            *((self.die, 4), (self.lose_an_engine, 6), (self.wait, 8), (self.reshard, 3)),
        ]

    def live(self, steps: int) -> None:
        """Take so many steps, and look after each."""
        steps_of, weights = zip(*self.often(), strict=True)
        for step in self.random.choices(steps_of, weights, k=steps):
            step()
            self.check()
