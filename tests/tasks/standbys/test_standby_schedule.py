"""Writer, standby, trimmer, reader and promotion, in an order that a seed chooses, beside a model.

The model is the list of what each commit left, and a commit's number is its position. So whatever a
reader sees says which commit it claims to be, and is compared with that one.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from long_runs import IS_LONG, IS_SOAK

import statestores as ss
from statestores.arrow.restoring import sink
from statestores.changelog import ChangelogReader, FileChangelog, Frame, compact
from statestores.errors import (
    InvalidStateStoreError,
    OffsetOutOfRangeError,
    StoreClosedError,
    StoreLockedError,
)
from statestores.tasks import Standby, open_standby

_SCHEDULES = 3000 if IS_SOAK else 40 if IS_LONG else 10
_STEPS = 60
_KEYS = [b"a", b"b", b"c", b"d"]
_INPUT = ss.TopicPartition("input", 0)
_BACKENDS = ("memory", "sqlite")

_STEP_WEIGHTS = {
    "write": 8,
    "poll": 8,
    "read": 6,
    "snapshot": 2,
    "trim": 2,
    "trim too much": 1,
    "compact": 2,
    "reopen": 1,
    "promote": 1,
}


class Schedule:
    """One run: a writer and a standby of one store, and everything that was ever committed."""

    def __init__(self, directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Begin with an empty store."""
        self.dice = random.Random(seed)
        self.where = f"seed {seed}"
        self._directory = directory
        self._copies = 0
        self._patch = monkeypatch
        self._root = ss.StateRoot.create(directory / "state")
        self._root.add_store(ss.KeyValue("store"), partitions=1)
        self.contents: list[dict[bytes, bytes]] = [{}]
        self.seen = 0
        self.trimmed_too_much = False
        self.facades: list[tuple[Any, list[int]]] = []
        self.writer: ss.LoggedStore[Any] = ss.open_logged_store(
            self._root, "store", 0, backend="memory"
        )
        self.standby = self._open_standby()

    def _open_standby(self) -> Standby:
        self._copies += 1
        self._copy = self._directory / f"copy-{self._copies}"
        backend = self.dice.choice(_BACKENDS)
        return open_standby(self._root, "store", 0, self._copy, backend=backend)

    def run(self) -> None:
        """Take the steps, and see that the standby gets there in the end."""
        names, weights = [*_STEP_WEIGHTS], [*_STEP_WEIGHTS.values()]
        for number, name in enumerate(self.dice.choices(names, weights, k=_STEPS)):
            self.where += f" {number}:{name}"
            getattr(self, f"_{name.replace(' ', '_')}")()
        self._write()
        self._snapshot()
        self.standby.poll()
        self._read()
        assert self.seen == len(self.contents) - 1, self.where
        assert self.standby.lag.offset_lag == 0, self.where

    def close(self) -> None:
        """Close both."""
        with ExitStack() as stack:
            stack.callback(self.writer.close)
            stack.callback(self.standby.close)

    # Steps.

    def _write(self) -> None:
        for _ in range(self.dice.randint(1, 3)):
            content = dict(self.contents[-1])
            number = len(self.contents)
            for key in self.dice.sample(_KEYS, self.dice.randint(1, 3)):
                if self.dice.random() < 0.3:
                    content.pop(key, None)
                    self.writer.store.put(key, None)
                else:
                    content[key] = b"%d" % number
                    self.writer.store.put(key, content[key])
            self.writer.commit({_INPUT: number})
            self.contents.append(content)

    def _snapshot(self) -> None:
        if self.writer.snapshot() is not None:
            self.trimmed_too_much = False

    def _trim(self) -> None:
        self._snapshot()
        self._trim_too_much(is_covered=True)

    def _trim_too_much(self, *, is_covered: bool = False) -> None:
        log = self.writer.changelog
        assert isinstance(log, FileChangelog)
        log.seal()
        if log.delete_before(log.end_offset) > 0 and not is_covered:
            self.trimmed_too_much = True

    def _compact(self) -> None:
        log = self.writer.changelog
        assert isinstance(log, FileChangelog)
        log.seal()
        compact(log)

    def _poll(self) -> None:
        """Poll, with a reader at each batch, and perhaps with a writer just before it reads."""
        if self.dice.random() < 0.5:
            self._interrupt(self.dice.choice([self._write_and_compact, self._write_and_trim]))
        with self._patch.context() as patched:
            # Every frame is committed by itself, so that readers see what is on the way.
            patched.setattr(sink, "BATCH_ROWS", 1)
            try:
                self.standby.poll(progress=lambda _: self._read())
            except OffsetOutOfRangeError as error:
                self._accept_stuck(str(error))

    def _accept_stuck(self, why: str) -> None:
        assert self.trimmed_too_much, f"{self.where}: {why}"
        assert "write one of the active store" in why, self.where

    def _interrupt(self, act: Any) -> None:
        """Have the writer *act* once, when a reader has decided what to read."""
        read = ChangelogReader.read

        def interrupted(*arguments: Any, **options: Any) -> Iterator[Frame]:
            self._patch.setattr(ChangelogReader, "read", read)
            act()
            return read(*arguments, **options)

        self._patch.setattr(ChangelogReader, "read", interrupted)

    def _write_and_compact(self) -> None:
        self._write()
        self._compact()

    def _write_and_trim(self) -> None:
        self._write()
        self._trim()

    def _reopen(self) -> None:
        """A process that begins again; its engine, if it has one, is where it was."""
        self.standby.close()
        self.facades.clear()
        self.standby = self._open_standby()
        self.seen = 0  # another copy: it may be behind the last one

    def _promote(self) -> None:
        if self.trimmed_too_much:
            self._snapshot()  # else the only copy is the writer's
        with pytest.raises(StoreLockedError):
            self.standby.promote()
        self._read()
        self.writer.close()
        self.writer = self.standby.promote()
        self._read()
        assert self.seen == len(self.contents) - 1, self.where
        self.facades.clear()
        self.standby = self._open_standby()
        self.seen = 0

    def _read(self) -> None:
        """See that each facade shows the content of a commit, and none that is earlier."""
        try:
            facade: Any = self.standby.read_only(include_stale=True)
        except InvalidStateStoreError:
            pass  # it is loading
        else:
            self.seen = self._judged(facade, self.seen)
            self.facades.append((facade, [self.seen]))
        for facade, last in self.facades[-3:]:
            try:
                last[0] = self._judged(facade, last[0])
            except StoreClosedError:
                continue  # the copy was begun anew

    def _judged(self, facade: Any, last: int) -> int:
        shown = dict(facade.range())
        number: int = facade.position.get(_INPUT, 0)

        assert number >= last, f"{self.where}: went back from {last} to {number}"
        assert shown == self.contents[number], f"{self.where}: no content of commit {number}"
        return number


@pytest.mark.spec("STB-1", "STB-2", "STB-4", "STB-5", "STB-6")
def test_whatever_the_order_a_reader_sees_commits_and_a_standby_gets_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each reader sees is a commit, and never goes back; a standby gets there, or says why."""
    for seed in range(_SCHEDULES):
        with monkeypatch.context() as patched:
            schedule = Schedule(tmp_path / f"{seed}", seed, patched)
            try:
                schedule.run()
            finally:
                schedule.close()
