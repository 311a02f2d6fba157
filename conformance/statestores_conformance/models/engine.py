"""An engine against a ``dict``: batches, reads, snapshots, held scans, reopening."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statestores.errors import StoreClosedError
from statestores.spi import Durability, EngineReader, EngineSnapshot
from statestores_conformance.engines import OpenEngine, Pairs, durability_of, pairs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        self._engine = open_engine(self._directory / "engine")
        self._model: dict[bytes, bytes] = {}
        self._snapshots: list[tuple[EngineSnapshot, dict[bytes, bytes]]] = []
        self._scans: list[tuple[Iterator[tuple[bytes, bytes]], Pairs]] = []

    def teardown(self) -> None:
        """Close the engine; remove its directory."""
        self._engine.close()
        shutil.rmtree(self._directory)

    def _reader(self, number: int | None) -> tuple[EngineReader, dict[bytes, bytes]]:
        """Return the engine, or one of the snapshots, and what it has to see."""
        if number is None or not self._snapshots:
            return self._engine, self._model
        return self._snapshots[number % len(self._snapshots)]

    @rule(
        batch=st.dictionaries(_keys, st.none() | _values, max_size=6),
        durable=st.booleans(),
    )
    def apply(self, batch: dict[bytes, bytes | None], *, durable: bool) -> None:
        """Apply a batch, at one durability or the other."""
        durability = durability_of(self._engine) if durable else Durability.PROCESS_CRASH
        self._engine.apply(batch, durability)
        for key, value in batch.items():
            if value is None:
                self._model.pop(key, None)
            else:
                self._model[key] = value

    @rule(keys=st.lists(_keys, max_size=5), where=st.none() | st.integers(0, 9))
    def get(self, keys: list[bytes], where: int | None) -> None:
        """Get one by one, and many at once."""
        reader, model = self._reader(where)
        expected = [model.get(key) for key in keys]

        assert [reader.get(key) for key in keys] == expected
        assert reader.get_many(keys) == expected

    @rule(start=_bounds, stop=_stops, where=st.none() | st.integers(0, 9))
    def read_range(self, start: bytes, stop: bytes | None, where: int | None) -> None:
        """Scan both ways, and seek both ends."""
        reader, model = self._reader(where)
        expected = _between(model, start, stop)

        assert list(reader.scan(start, stop)) == expected
        assert list(reader.scan(start, stop, reverse=True)) == expected[::-1]
        assert reader.first(start, stop) == (expected[0] if expected else None)
        assert reader.last(start, stop) == (expected[-1] if expected else None)

    @rule(start=_bounds, stop=_stops, reverse=st.booleans(), where=st.none() | st.integers(0, 9))
    def hold_scan(
        self, start: bytes, stop: bytes | None, where: int | None, *, reverse: bool
    ) -> None:
        """Begin a scan and keep it over what follows."""
        reader, model = self._reader(where)
        expected = _between(model, start, stop)
        scan = reader.scan(start, stop, reverse=reverse)
        self._scans.append((scan, expected[::-1] if reverse else expected))

    @precondition(lambda self: self._scans)
    @rule(number=st.integers(0, 9), steps=st.integers(1, 4))
    def step_scan(self, number: int, steps: int) -> None:
        """Go on with a held scan."""
        place = number % len(self._scans)
        scan, expected = self._scans[place]
        for _ in range(steps):
            assert next(scan, None) == (expected.pop(0) if expected else None)
        if not expected:
            del self._scans[place]

    @precondition(lambda self: len(self._snapshots) < 3)
    @rule()
    def take_snapshot(self) -> None:
        """Freeze the present content."""
        self._snapshots.append((self._engine.snapshot(), dict(self._model)))

    @precondition(lambda self: self._snapshots)
    @rule()
    def close_snapshot(self) -> None:
        """Close the oldest snapshot; the scans that hang on it are let go."""
        self._scans.clear()
        self._snapshots.pop(0)[0].close()

    @precondition(lambda self: self._engine.capabilities.persistent)
    @rule()
    def reopen(self) -> None:
        """Close and open again; what was held raises."""
        self._engine.close()
        for scan, _ in self._scans:
            with pytest.raises(StoreClosedError):
                next(scan)
        for snapshot, _ in self._snapshots:
            with pytest.raises(StoreClosedError):
                snapshot.get(b"a")
        self._scans.clear()
        self._snapshots.clear()
        self._engine = self._open_engine(self._directory / "engine")

    @invariant()
    def content_is_that_of_the_model(self) -> None:
        """All pairs, in order."""
        assert pairs_of(self._engine) == sorted(self._model.items())


def _between(model: dict[bytes, bytes], start: bytes, stop: bytes | None) -> Pairs:
    """Return the pairs of *model* with ``start <= key < stop``, in order."""
    return sorted(
        pair for pair in model.items() if start <= pair[0] and (stop is None or pair[0] < stop)
    )
