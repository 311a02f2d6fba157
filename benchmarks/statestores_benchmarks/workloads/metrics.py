"""What measuring a store costs: the same store without it, as it is, and with every call recorded.

The store without it is ours with the counting lines removed. Compared with each other they show a
per cent or two, so these groups want ``--full``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import statestores as ss
from statestores.metrics import set_recording_level
from statestores.registry import load_backend
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.namespaced_rows import key_bounds_of, without_namespace
from statestores.semantics.rows.row_cache import RowCache
from statestores.semantics.rows.write_buffer import merge
from statestores_benchmarks.cases import Case, Group, Scale, Target, Timed
from statestores_benchmarks.data import COMMIT_ROWS, VALUE, distinct_keys, drawn

BACKENDS = ("memory", "rocksdb")

SMALL_COMMIT_ROWS = 10
SCANNED_ROWS = 10

_PASSES = 5
"""How often a round goes over its keys: one pass is too short to show a per cent."""

Work = Callable[[EngineKeyValueStore, list[bytes]], None]


class UnmeasuredStore(EngineKeyValueStore):
    """The hot paths of the key-value store without the lines that count, and no commit measured."""

    def put(self, key: bytes, value: bytes | None) -> None:
        """Put, uncounted."""
        if type(key) is not bytes:
            raise TypeError
        if value is None:
            self._rows[key] = None
            self._uncommitted_bytes += len(key)
            return
        if type(value) is not bytes:
            raise TypeError
        self._rows[key] = value
        self._uncommitted_bytes += len(key) + len(value)

    def get(self, key: bytes) -> bytes | None:
        """Get, uncounted."""
        if type(key) is not bytes:
            raise TypeError
        if key in self._rows:
            return self._rows[key]
        if key in self._cached:
            return self._cached[key]
        return self._engine_get(DATA + key)

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        self.check_open()
        stored = without_namespace(self._engine.scan(start, stop, reverse=reverse))
        if self._rows:
            overlay = self._buffer.slice(*key_bounds_of(start, stop), reverse=reverse)
            if overlay:
                return self.guarded(merge(stored, overlay, reverse=reverse))
        return stored

    def _measure_commit(self, rows: int) -> None:
        pass


def groups(scale: Scale) -> Iterator[Group]:
    """Yield puts, gets and ranges for a backend that does nearly nothing, and for RocksDB."""
    for backend in BACKENDS:
        rows = scale.rows(100_000)
        keys = distinct_keys(rows)
        make = partial(_group, backend, keys)
        yield make("put", f"put, commit every {COMMIT_ROWS:,}", partial(_put, COMMIT_ROWS))
        yield make("small-commit", "put, commit every 10", partial(_put, SMALL_COMMIT_ROWS), of=10)
        yield make("get", "get from the engine", _get)
        yield make("buffered-get", "get from the write buffer", _get, buffered=True)
        yield make("range", f"range of {SCANNED_ROWS} rows", _range, of=50)


def _group(
    backend: str,
    keys: list[bytes],
    name: str,
    title: str,
    work: Work,
    *,
    buffered: bool = False,
    of: int = 1,
) -> Group:
    """Return a group that does *work* with every *of*-th key, in three stores."""
    wanted = drawn(keys, len(keys) // of)

    @contextmanager
    def prepared(path: Path, *, kind: type[EngineKeyValueStore], recorded: bool) -> Iterator[Timed]:
        engine = load_backend(backend).open(path)
        with kind(engine, ss.KeyValue("bench"), ss.Durability.PROCESS_CRASH, RowCache(0)) as store:
            store.put_many(keys, [VALUE] * len(keys))
            if not buffered:
                store.commit({})
            if recorded:
                set_recording_level(store, "DEBUG")
            yield partial(work, store, wanted)

    return Group(
        name=f"metrics-{backend}-{name}",
        title=f"{backend}: {title}",
        operations=_PASSES * len(wanted),
        cases=[
            Case("not measured", partial(prepared, kind=UnmeasuredStore, recorded=False)),
            Case("as it is", partial(prepared, kind=EngineKeyValueStore, recorded=False)),
            Case("each call recorded", partial(prepared, kind=EngineKeyValueStore, recorded=True)),
        ],
        targets=[Target(case="as it is", at_most=1.05)],
    )


def _put(commit_rows: int, store: EngineKeyValueStore, keys: list[bytes]) -> None:
    put, commit = store.put, store.commit
    for _ in range(_PASSES):
        for start in range(0, len(keys), commit_rows):
            for key in keys[start : start + commit_rows]:
                put(key, VALUE)
            commit({})


def _get(store: EngineKeyValueStore, keys: list[bytes]) -> None:
    get = store.get
    for _ in range(_PASSES):
        for key in keys:
            get(key)


def _range(store: EngineKeyValueStore, keys: list[bytes]) -> None:
    for _ in range(_PASSES):
        for key in keys:
            for _row in islice(store.range(key), SCANNED_ROWS):
                pass
