"""An engine against a ``dict``: batches, reads, snapshots, held scans, reopening."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statestores.errors import StoreClosedError
from statestores.spi import Capabilities, Durability
from statestores_conformance.models.held import HeldIterators
from statestores_conformance.scripts.script import Name, Script
from statestores_conformance.subjects.engines import OpenEngine, Pairs, durability_of

_keys = st.one_of(
    st.sampled_from([b"a", b"a\x00", b"a\x00\xff", b"a\xff", b"ab", b"b", b"\x00", b"\xff"]),
    st.binary(min_size=1, max_size=3),
)
_values = st.one_of(st.just(b""), st.binary(max_size=20), st.just(b"v" * 5_000))
_bounds = st.one_of(st.just(b""), _keys)
_stops = st.none() | _bounds


class EngineMachine(RuleBasedStateMachine):
    """The model is a ``dict``, and a copy of it for each snapshot."""

    def __init__(self, open_engine: OpenEngine, root: Path) -> None:
        super().__init__()
        self._directory = Path(tempfile.mkdtemp(dir=root))
        self._open_engine = open_engine
        self.script = Script(open_engine=open_engine)
        self._generation = 0
        self._model: dict[bytes, bytes] = {}
        self._held = HeldIterators(self.script)
        self._snapshots: list[tuple[Name, dict[bytes, bytes], HeldIterators]] = []
        self._open()

    def _open(self) -> None:
        path = self._directory / f"engine-{self._generation}"
        self._engine = self.script.let("engine", "open_engine", path)

    @property
    def openers(self) -> dict[str, Callable[..., Any]]:
        """The names of the script that open something."""
        return {"open_engine": self._open_engine}

    @property
    def _capabilities(self) -> Capabilities:
        capabilities: Capabilities = self.script.value(self._engine).capabilities
        return capabilities

    def teardown(self) -> None:
        """Close the engine; remove its directory."""
        if hasattr(self, "_engine"):
            self.script.value(self._engine).close()
        shutil.rmtree(self._directory)

    def _reader(self, number: int | None) -> tuple[Name, dict[bytes, bytes], HeldIterators]:
        """Return the engine, or one of the snapshots; what it must see, and its scans."""
        if number is None or not self._snapshots:
            return self._engine, self._model, self._held
        return self._snapshots[number % len(self._snapshots)]

    @rule(
        batch=st.dictionaries(_keys, st.none() | _values, max_size=6),
        durable=st.booleans(),
    )
    def apply(self, batch: dict[bytes, bytes | None], *, durable: bool) -> None:
        """Apply a batch, at one durability or the other."""
        durability = Durability.PROCESS_CRASH
        if durable:
            durability = durability_of(self.script.value(self._engine))
        self.script.do(f"{self._engine}.apply", batch, durability)
        for key, value in batch.items():
            if value is None:
                self._model.pop(key, None)
            else:
                self._model[key] = value

    @precondition(lambda self: self._capabilities.bulk_ingest)
    @rule(pairs=st.dictionaries(_keys, _values, min_size=1, max_size=6))
    def ingest(self, pairs: dict[bytes, bytes]) -> None:
        """Load sorted pairs."""
        self.script.do(f"{self._engine}.ingest", sorted(pairs.items()))
        self._model.update(pairs)

    @rule(keys=st.lists(_keys, max_size=5), where=st.none() | st.integers(0, 9))
    def get(self, keys: list[bytes], where: int | None) -> None:
        """Get one by one, and many together."""
        reader, model, _ = self._reader(where)
        for key in keys:
            self.script.gives(model.get(key), f"{reader}.get", key)
        self.script.gives([model.get(key) for key in keys], f"{reader}.get_many", keys)

    @rule(start=_bounds, stop=_stops, where=st.none() | st.integers(0, 9))
    def read_range(self, start: bytes, stop: bytes | None, where: int | None) -> None:
        """Scan both ways, and seek both ends."""
        reader, model, _ = self._reader(where)
        expected = _between(model, start, stop)
        self.script.lists(expected, f"{reader}.scan", start, stop)
        self.script.lists(expected[::-1], f"{reader}.scan", start, stop, reverse=True)
        self.script.gives(expected[0] if expected else None, f"{reader}.first", start, stop)
        self.script.gives(expected[-1] if expected else None, f"{reader}.last", start, stop)

    @rule(start=_bounds, stop=_stops, reverse=st.booleans(), where=st.none() | st.integers(0, 9))
    def hold_scan(
        self, start: bytes, stop: bytes | None, where: int | None, *, reverse: bool
    ) -> None:
        """Begin a scan and keep it during what follows."""
        reader, model, held = self._reader(where)
        expected = _between(model, start, stop)
        scan = self.script.let("scan", f"{reader}.scan", start, stop, reverse=reverse)
        held.add(scan, expected[::-1] if reverse else expected)

    @rule(number=st.integers(0, 9), steps=st.integers(1, 4), where=st.none() | st.integers(0, 9))
    def step_scan(self, number: int, steps: int, where: int | None) -> None:
        """Go on with a held scan, of the engine or of a snapshot."""
        _, _, held = self._reader(where)
        if held:
            held.step(number, steps)

    @precondition(lambda self: len(self._snapshots) < 3)
    @rule()
    def take_snapshot(self) -> None:
        """Freeze the present content."""
        snapshot = self.script.let("snapshot", f"{self._engine}.snapshot")
        self._snapshots.append((snapshot, dict(self._model), HeldIterators(self.script)))

    @precondition(lambda self: self._snapshots)
    @rule(number=st.integers(0, 9))
    def close_snapshot(self, number: int) -> None:
        """Close a snapshot: it and its scans raise, other scans go on."""
        snapshot, _, held = self._snapshots.pop(number % len(self._snapshots))
        self.script.do(f"{snapshot}.close")
        held.are_closed()
        self.script.fails(StoreClosedError, f"{snapshot}.get", b"a")

    @rule()
    def reopen(self) -> None:
        """Close and open again; what was held raises.

        Where nothing survives closing, a new engine replaces the old one.
        """
        self.script.do(f"{self._engine}.close")
        self._held.are_closed()
        for snapshot, _, held in self._snapshots:
            held.are_closed()
            self.script.fails(StoreClosedError, f"{snapshot}.get", b"a")
        self._snapshots.clear()
        if not self._capabilities.persistent:
            self._generation += 1
            self._model.clear()
        self._open()

    @invariant()
    def content_is_that_of_the_model(self) -> None:
        """All pairs, in order."""
        self.script.lists(sorted(self._model.items()), f"{self._engine}.scan", b"")


def _between(model: dict[bytes, bytes], start: bytes, stop: bytes | None) -> Pairs:
    """Return the pairs of *model* with ``start <= key < stop``, in order."""
    return sorted(
        pair for pair in model.items() if start <= pair[0] and (stop is None or pair[0] < stop)
    )
