"""What the machines of all kinds have in common: commits, offsets, reopening, restoring.

A kind's machine is a module beside this one: it gives the specification, the rules that write and
read, and `check`. `models.key_value` is the shortest example.
"""

import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statestores.errors import InvalidArgumentError, OffsetRegressionError, StoreClosedError
from statestores.spi import Durability, Position, StoreSpecification, TopicPartition
from statestores_conformance.models.held import HeldIterators
from statestores_conformance.scripts.script import Name, Script
from statestores_conformance.scripts.script_helpers import HELPERS

_PARTITIONS = [TopicPartition("log", 0), TopicPartition("log", 1)]
_INPUTS = [TopicPartition("input", 0), TopicPartition("input", 1)]
_NO_PARTITION = TopicPartition("log", -1)

partitions = st.sampled_from(_PARTITIONS)
keys = st.sampled_from([b"", b"a", b"a\x00", b"a\x00\xff", b"a\xff", b"ab", b"b", b"\xff"])
"""Few, so that they meet; prefixes of each other, so that they can be confused."""

values = st.sampled_from([b"", b"\x00", b"1", b"2", b"3", b"v" * 300])
readers = st.sampled_from(["store", "committed", "uncommitted"])
"""The owner and two facades, as they are called in the script."""


class Model(Protocol):
    """The content of one store, in the most obvious form."""

    def clear(self) -> None:
        """Forget everything."""


ModelT = TypeVar("ModelT", bound=Model)


class StoreMachine(RuleBasedStateMachine, Generic[ModelT]):
    """Two models: what is committed, and what the owner sees. The rules move both.

    In the script, ``store`` is the owner; ``committed`` and ``uncommitted`` are facades that live
    until a rule takes new ones, so that old ones are read after many commits too.
    """

    model: ModelT
    """What the owner sees."""

    def __init__(self, open_store: Callable[[Path, Any], Any], root: Path) -> None:
        super().__init__()
        self._directory = Path(tempfile.mkdtemp(dir=root))
        self._open_store = open_store
        self.script = Script(open_store=open_store, **HELPERS)
        self.held = HeldIterators(self.script)
        self._generation = 0
        self._copies = 0
        self._names: dict[str, Name] = {}
        self._offsets: dict[TopicPartition, int] = {}
        self._position: dict[TopicPartition, int] = {}
        self._committed_position: dict[TopicPartition, int] = {}
        self._log: list[tuple[Name, int]] = []
        self._exports: list[tuple[Name, ModelT]] = []

    # What a kind says.

    @abstractmethod
    def specification(self) -> StoreSpecification[Any, Any]:
        """Return the specification of the store."""

    @abstractmethod
    def check(self, reader: str, model: ModelT, *, thorough: bool) -> None:
        """Compare reads of the name *reader* with *model*: a few, or every form of them.

        The few run after every step; what they compare is enough to see that content differs.
        """

    # What a kind uses.

    @property
    def openers(self) -> dict[str, Callable[..., Any]]:
        """The names of the script that open something."""
        return {"open_store": self._open_store}

    def begin(self, model: ModelT) -> None:
        """Open the empty store that *model* models."""
        self.model = model
        self._committed = deepcopy(model)
        self._open()

    def model_of(self, reader: str) -> ModelT:
        """Return the model of what *reader* sees."""
        return self._committed if reader == "committed" else self.model

    def call(self, reader: str, method: str) -> str:
        """Return the call of *method* on whatever is *reader* now."""
        return f"{self._names[reader]}.{method}"

    @property
    def store(self) -> Name:
        """The owner, as helpers of scripts take it."""
        return self._names["store"]

    def on_store(self, method: str) -> str:
        """Return the call of *method* on the owner."""
        return self.call("store", method)

    def read(
        self, expected: Sequence[Any], *, hold: bool, call: str, arguments: Any, **options: Any
    ) -> None:
        """Iterate now, or keep the iterator during what follows."""
        if hold:
            self.held.add(self.script.let("iterator", call, *arguments, **options), expected)
        else:
            self.script.lists(expected, call, *arguments, **options)

    # What all kinds do.

    def _open(self) -> None:
        path = self._directory / f"store-{self._generation}"
        self._names["store"] = self.script.let("store", "open_store", path, self.specification())
        for level in ("committed", "uncommitted"):
            self.renew_facade(level)

    def teardown(self) -> None:
        """Close the store; remove its directory."""
        if "store" in self._names:
            self.script.value(self._names["store"]).close()
        shutil.rmtree(self._directory)

    @rule(level=st.sampled_from(["committed", "uncommitted"]))
    def renew_facade(self, level: str) -> None:
        """Take a new facade, like a reader that comes in the middle of things."""
        self._names[level] = self.script.let(level, self.on_store("read_only"), f"read_{level}")

    @precondition(lambda self: self.held)
    @rule(number=st.integers(0, 9), steps=st.integers(1, 4))
    def step_iterator(self, number: int, steps: int) -> None:
        """Go on with a held iterator."""
        self.held.step(number, steps)

    @rule(
        offsets=st.dictionaries(partitions, st.none() | st.integers(0, 3)),
        durability=st.sampled_from([None, Durability.PROCESS_CRASH]),
    )
    def commit(
        self, offsets: dict[TopicPartition, int | None], durability: Durability | None
    ) -> None:
        """Commit; a number is how far the offset moves on, ``None`` forgets it."""
        absolute = {
            partition: None if step is None else self._offsets.get(partition, 0) + step
            for partition, step in offsets.items()
        }
        changes = self.script.let("changes", self.on_store("pending_changes"))
        self.script.do(self.on_store("commit"), absolute, durability=durability)
        rows = len(self.script.value(changes))
        if rows:
            self._log.append((changes, rows))
        for partition, offset in absolute.items():
            if offset is None:
                self._offsets.pop(partition, None)
            else:
                self._offsets[partition] = offset
        self._committed = deepcopy(self.model)
        self._committed_position = dict(self._position)

    @precondition(lambda self: any(self._offsets.values()))
    @rule()
    def commit_backward(self) -> None:
        """A lower offset is refused, and nothing is lost."""
        partition, offset = max(self._offsets.items(), key=lambda item: item[1])
        self.script.fails(OffsetRegressionError, self.on_store("commit"), {partition: offset - 1})

    @rule(partition=partitions)
    def commit_malformed(self, partition: TopicPartition) -> None:
        """So is an impossible one, even when it is the last of several."""
        malformed = {partition: 99, _NO_PARTITION: 1}
        self.script.fails(InvalidArgumentError, self.on_store("commit"), malformed)

    @rule()
    def clear_offsets(self) -> None:
        """Forget all offsets, with writes pending or not."""
        self.script.do(self.on_store("clear_offsets"))
        self._offsets.clear()

    @rule(partition=st.sampled_from(_INPUTS), offset=st.integers(0, 20))
    def advance(self, partition: TopicPartition, offset: int) -> None:
        """Advance the position, or try to move it back."""
        self.script.do(self.on_store("advance_position"), {partition: offset})
        self._position[partition] = max(offset, self._position.get(partition, 0))

    @rule()
    def roll_back(self) -> None:
        """Forget what is pending."""
        self.script.do(self.on_store("rollback"))
        self._forget_pending()

    def _forget_pending(self) -> None:
        self.model = deepcopy(self._committed)
        self._position = dict(self._committed_position)

    @rule()
    def reopen(self) -> None:
        """Close and open again: pending writes are gone, what was held raises.

        Where nothing survives closing, a new store replaces the old one.
        """
        self.script.do(self.on_store("close"))
        self.held.are_closed()
        for reader in ("store", "committed", "uncommitted"):
            self.script.fails(
                StoreClosedError, self.call(reader, "committed_offset"), _PARTITIONS[0]
            )
        self._exports.clear()
        self._forget_pending()
        if not self.script.value(self._names["store"]).persistent:
            self._generation += 1
            self._forget_everything()
        self._open()
        self._check_copy(self._names["store"])

    @precondition(lambda self: len(self._log) > 3)
    @rule()
    def truncate(self) -> None:
        """Delete everything; held iterators keep what they had."""
        self.script.do(self.on_store("truncate"))
        self._forget_everything()

    def _forget_everything(self) -> None:
        self.model.clear()
        self._committed.clear()
        self._offsets.clear()
        self._position.clear()
        self._committed_position.clear()
        self._log.clear()

    @precondition(lambda self: self._log)
    @rule(data=st.data(), in_place=st.booleans())
    def restore_by_replay(self, data: st.DataObject, *, in_place: bool) -> None:
        """The log, however batched and replayed twice from anywhere, gives what is committed.

        Into a new store, or into the same one after it was emptied.
        """
        start = data.draw(st.integers(0, len(self._log)), label="replayed again from")
        log = [*self._log, *self._log[start:]]
        if in_place:
            self.script.do(self.on_store("truncate"))
            copy = self._names["store"]
        else:
            copy = self._copy()
        for changes, rows in log:
            cut = data.draw(st.integers(0, rows), label="cut before row")
            for part in self._parts(changes, [0, cut, rows]):
                self.script.do(f"{copy}.replay", part)
                if data.draw(st.booleans(), label="commit"):
                    self.script.do(f"{copy}.commit", {})
        self.script.do(f"{copy}.commit", {})
        self._check_copy(copy)
        if in_place:
            self._forget_pending()
            self._offsets.clear()
            self._position.clear()
            self._committed_position.clear()
        else:
            self.script.do(f"{copy}.close")

    def _parts(self, changes: Name, ends: list[int]) -> list[Name]:
        """Return *changes* cut at *ends*, without the parts that would be empty."""
        if ends[1] in (ends[0], ends[2]):
            return [changes]
        return [
            self.script.let("part", "rows", changes, start, stop) for start, stop in pairwise(ends)
        ]

    @rule(batch_rows=st.integers(1, 5), commit=st.booleans())
    def restore_by_load(self, batch_rows: int, *, commit: bool) -> None:
        """What is committed, loaded into an empty store in any batches, gives the same store."""
        copy = self._copy()
        self.script.do("load_content", copy, self._names["store"], batch_rows, commit=commit)
        self._check_copy(copy)
        self.script.gives(dict(self._offsets), f"{copy}.committed_offsets")
        self.script.has(Position(self._committed_position), f"{copy}.position")
        self.script.do(f"{copy}.close")

    @precondition(lambda self: len(self._exports) < 2)
    @rule()
    def begin_export(self) -> None:
        """Ask for the committed content, and read it later: it is frozen at the call."""
        content = self.script.let("content", self.on_store("committed_content"))
        self._exports.append((content, deepcopy(self._committed)))

    @precondition(lambda self: self._exports)
    @rule()
    def finish_export(self) -> None:
        """Load what was committed when the export began."""
        content, model = self._exports.pop(0)
        copy = self._copy()
        self.script.do("load_export", copy, content)
        self.check(copy, model, thorough=True)
        self.script.do(f"{copy}.close")

    @precondition(lambda self: self._log)
    @rule(data=st.data())
    def replay_onto_itself(self, data: st.DataObject) -> None:
        """The end of its own log, replayed onto the store, changes no read."""
        self.roll_back()
        start = data.draw(st.integers(0, len(self._log) - 1), label="from")
        for changes, _ in self._log[start:]:
            self.script.do(self.on_store("replay"), changes)
        self.check(self._names["store"], self.model, thorough=False)
        self.script.do(self.on_store("rollback"))

    @invariant()
    def reads_are_those_of_the_model(self) -> None:
        """The owner's, the facades', and what is known about logs."""
        for reader in ("store", "committed", "uncommitted"):
            self.check(self._names[reader], self.model_of(reader), thorough=False)
            position = self._committed_position if reader == "committed" else self._position
            self.script.has(Position(position), self.call(reader, "position"))
        self.script.gives(dict(self._offsets), self.on_store("committed_offsets"))

    def _check_copy(self, copy: Name) -> None:
        """Compare every read of a store that has nothing pending with what is committed."""
        self.check(copy, self._committed, thorough=True)
        facade = self.script.let("facade", f"{copy}.read_only")
        self.check(facade, self._committed, thorough=True)

    def _copy(self) -> Name:
        """Open a new store of the same specification."""
        self._copies += 1
        path = self._directory / f"copy-{self._copies}"
        return self.script.let("copy", "open_store", path, self.specification())
