"""What the machines of all kinds have in common: commits, offsets, reopening, restoring."""

import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statestores.errors import OffsetRegressionError, StoreClosedError
from statestores.spi import Changes, Position, StateStore, TopicPartition
from statestores_conformance.replay import load_all, split

_PARTITIONS = [TopicPartition("log", 0), TopicPartition("log", 1)]
_INPUTS = [TopicPartition("input", 0), TopicPartition("input", 1)]

partitions = st.sampled_from(_PARTITIONS)
keys = st.sampled_from([b"", b"a", b"a\x00", b"a\x00\xff", b"a\xff", b"ab", b"b", b"\xff"])
"""Few, so that they meet; prefixes of each other, so that they can be confused."""

values = st.sampled_from([b"", b"\x00", b"1", b"2", b"3", b"v" * 300])
readers = st.sampled_from(["owner", "committed", "uncommitted"])


class Model(Protocol):
    """The content of one store, as obviously as can be."""

    def clear(self) -> None:
        """Forget everything."""


ModelT = TypeVar("ModelT", bound=Model)
StoreT = TypeVar("StoreT", bound=StateStore)


class StoreMachine(RuleBasedStateMachine, Generic[StoreT, ModelT]):
    """Two models: what is committed, and what the owner sees. The rules move both."""

    _store: StoreT
    _model: ModelT
    _committed: ModelT

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._directory = Path(tempfile.mkdtemp(dir=root))
        self._offsets: dict[TopicPartition, int] = {}
        self._position: dict[TopicPartition, int] = {}
        self._committed_position: dict[TopicPartition, int] = {}
        self._log: list[Changes] = []
        self._held: list[tuple[Iterator[Any], list[Any]]] = []
        self._copies = 0

    def begin(self, model: ModelT) -> None:
        """Open the empty store, which *model* is the model of."""
        self._model = model
        self._committed = deepcopy(model)
        self._store = self._open(self._directory / "store")

    def teardown(self) -> None:
        """Close the store; remove its directory."""
        if hasattr(self, "_store"):
            self._store.close()
        shutil.rmtree(self._directory)

    # What a kind says.

    @abstractmethod
    def _open(self, path: Path) -> StoreT:
        """Open the store at *path*."""

    @abstractmethod
    def _check(self, store: StoreT, committed: ModelT) -> None:
        """Compare every read of *store*, which has nothing pending, with *committed*."""

    @abstractmethod
    def _check_quickly(self) -> None:
        """Compare a few reads of the owner and of both facades with the models."""

    # What all kinds do.

    def _model_of(self, reader: str) -> ModelT:
        """Return the model of what *reader* sees."""
        return self._committed if reader == "committed" else self._model

    def _hold(self, iterator: Iterator[Any], expected: list[Any]) -> None:
        """Keep *iterator*, which has to give *expected* whatever comes."""
        self._held.append((iterator, expected))

    @precondition(lambda self: self._held)
    @rule(number=st.integers(0, 9), steps=st.integers(1, 4))
    def step_iterator(self, number: int, steps: int) -> None:
        """Go on with a held iterator."""
        place = number % len(self._held)
        iterator, expected = self._held[place]
        for _ in range(steps):
            assert next(iterator, None) == (expected.pop(0) if expected else None)
        if not expected:
            del self._held[place]

    @rule(offsets=st.dictionaries(partitions, st.none() | st.integers(0, 3)))
    def commit(self, offsets: dict[TopicPartition, int | None]) -> None:
        """Commit; a number is how far the offset moves on, ``None`` forgets it."""
        absolute = {
            partition: None if step is None else self._offsets.get(partition, 0) + step
            for partition, step in offsets.items()
        }
        changes = self._store.pending_changes()
        self._store.commit(absolute)
        if len(changes):
            self._log.append(changes)
        for partition, offset in absolute.items():
            if offset is None:
                self._offsets.pop(partition, None)
            else:
                self._offsets[partition] = offset
        self._committed = deepcopy(self._model)
        self._committed_position = dict(self._position)

    @precondition(lambda self: any(self._offsets.values()))
    @rule()
    def commit_backward(self) -> None:
        """A lower offset is refused, and nothing is lost."""
        partition, offset = max(self._offsets.items(), key=lambda item: item[1])
        with pytest.raises(OffsetRegressionError):
            self._store.commit({partition: offset - 1})

    @rule()
    def clear_offsets(self) -> None:
        """Forget all offsets, with writes pending or not."""
        self._store.clear_offsets()
        self._offsets.clear()

    @rule(partition=st.sampled_from(_INPUTS), offset=st.integers(0, 20))
    def advance(self, partition: TopicPartition, offset: int) -> None:
        """Advance the position, or try to move it back."""
        self._store.advance_position({partition: offset})
        self._position[partition] = max(offset, self._position.get(partition, 0))

    @rule()
    def roll_back(self) -> None:
        """Forget what is pending."""
        self._store.rollback()
        self._model = deepcopy(self._committed)
        self._position = dict(self._committed_position)

    @precondition(lambda self: self._store.persistent)
    @rule()
    def reopen(self) -> None:
        """Close and open again: pending writes are gone, held iterators raise."""
        self._store.close()
        for iterator, _ in self._held:
            with pytest.raises(StoreClosedError):
                next(iterator)
        self._held.clear()
        self._store = self._open(self._directory / "store")
        self._model = deepcopy(self._committed)
        self._position = dict(self._committed_position)
        self._check(self._store, self._committed)

    @precondition(lambda self: len(self._log) > 3)
    @rule()
    def truncate(self) -> None:
        """Delete everything; held iterators keep what they had."""
        self._store.truncate()
        self._model.clear()
        self._committed.clear()
        self._offsets.clear()
        self._position.clear()
        self._committed_position.clear()
        self._log.clear()

    @precondition(lambda self: self._log)
    @rule(data=st.data())
    def restore_by_replay(self, data: st.DataObject) -> None:
        """The log in any batching, replayed twice from anywhere, gives what is committed."""
        start = data.draw(st.integers(0, len(self._log)), label="replayed again from")
        with self._copy() as copy:
            for changes in [*self._log, *self._log[start:]]:
                cuts = data.draw(st.lists(st.integers(0, len(changes)), max_size=2), label="cuts")
                for part in split(changes, *cuts):
                    copy.replay(part)
                    if data.draw(st.booleans(), label="commit"):
                        copy.commit({})
            copy.commit({})
            self._check(copy, self._committed)

    @rule()
    def restore_by_load(self) -> None:
        """What is committed, loaded into an empty store, gives the same store."""
        with self._copy() as copy:
            load_all(self._store, copy)
            self._check(copy, self._committed)

            assert copy.committed_offsets() == self._offsets
            assert copy.position == Position(self._committed_position)

    @precondition(lambda self: self._log)
    @rule(data=st.data())
    def replay_onto_itself(self, data: st.DataObject) -> None:
        """The end of its own log, replayed onto the store, changes no read."""
        self.roll_back()
        start = data.draw(st.integers(0, len(self._log) - 1), label="from")
        for changes in self._log[start:]:
            self._store.replay(changes)
        self._check_quickly()
        self._store.rollback()

    @invariant()
    def reads_are_those_of_the_model(self) -> None:
        """The owner's, the facades', and what is known of logs."""
        self._check_quickly()
        committed, uncommitted = (
            self._facade_of(level).position for level in ("committed", "uncommitted")
        )

        assert self._store.committed_offsets() == self._offsets
        assert self._store.position == uncommitted == Position(self._position)
        assert committed == Position(self._committed_position)

    @abstractmethod
    def _facade_of(self, reader: str) -> Any:
        """Return the store itself for ``owner``, else a facade of that isolation."""

    def _copy(self) -> StoreT:
        """Open a new store of the same specification."""
        self._copies += 1
        return self._open(self._directory / f"copy-{self._copies}")
