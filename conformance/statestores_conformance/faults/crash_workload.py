"""What a process does before it is killed: a function of a seed, so that others can repeat it.

Each operation has a number, which is its offset in an imagined changelog. At a committed offset the
store must hold what the operations up to that number give, and nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from hashlib import shake_128
from typing import Any, ClassVar

from statestores.semantics import open_on_engine
from statestores.spi import (
    Durability,
    Engine,
    KeyValue,
    KeyValueStore,
    Session,
    SessionStore,
    StateStore,
    StoreSpecification,
    TimestampedKeyValue,
    TimestampedKeyValueStore,
    TopicPartition,
    Versioned,
    VersionedStore,
    Window,
    WindowStore,
)
from statestores_conformance.models.key_value import KeyValueModel
from statestores_conformance.models.retained import RetainedModel
from statestores_conformance.models.timestamped import TimestampedModel
from statestores_conformance.models.versioned import VersionedModel

CHANGELOG = TopicPartition("crash-changelog", 0)
"""The partition whose committed offset is the number of the last operation."""

INPUT = TopicPartition("crash-input", 0)
"""The partition whose position moves with every operation."""

_KEYS = 60
_RETENTION_MS = 400
_PRUNE_EVERY = 1_000
_SIZES = (1, 1, 2, 5, 20, 100, 500, 2_000)
"""Of commits, in operations."""


_RANDOM_BYTES = 256
"""What the randomness of one operation has: a few numbers, and a value of up to 200 bytes."""


class _Dice:
    """Randomness that is the same for the same seed and operation.

    There is one for each operation, and a `random.Random` costs more than to perform it.
    """

    def __init__(self, seed: int, number: int) -> None:
        """Be that of operation *number* of a run with *seed*."""
        self._bytes = shake_128(b"%d %d" % (seed, number)).digest(_RANDOM_BYTES)
        self._used = 0

    def below(self, stop: int) -> int:
        """Return a number from zero up to *stop*, which is far below a thousand millions."""
        begin = self._used
        self._used = end = begin + 4
        return int.from_bytes(self._bytes[begin:end], "little") % stop

    def one_in(self, number: int) -> bool:
        """Return whether what comes once in *number* times has come."""
        return not self.below(number)

    def some_bytes(self, stop: int) -> bytes:
        """Return fewer than *stop* bytes; there are 200 at most beside a few numbers."""
        length = self.below(stop)
        begin = self._used
        self._used = end = begin + length
        return self._bytes[begin:end]


def commits(seed: int, after: int) -> Iterator[range]:
    """Yield the numbers of the operations of each commit that follows operation *after*."""
    start = after + 1
    while True:
        size = _SIZES[_Dice(seed, start).below(len(_SIZES))]
        yield range(start, start + size)
        start += size


class Workload(ABC):
    """The operations on one kind of store, and the model of what they give."""

    kind: ClassVar[str]
    """The name by which the child process finds the workload."""

    failpoints: ClassVar[tuple[str, ...]] = ("commit.apply.before", "commit.apply.after")
    """The named failpoints that the operations reach, again and again."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._modelled = -1
        """The number of the last operation that the model has seen."""

    @property
    @abstractmethod
    def specification(self) -> StoreSpecification[bytes, bytes]:
        """What the store is."""

    def open(self, engine: Engine, durability: Durability) -> StateStore:
        """Open the store over *engine*."""
        return open_on_engine(engine, self.specification, durability=durability)

    @abstractmethod
    def write(self, store: Any, number: int) -> None:
        """Perform operation *number* on the store, or on the model."""

    @abstractmethod
    def write_garbage(self, store: Any, number: int) -> None:
        """Write what will be rolled back, or forgotten by the crash."""

    @abstractmethod
    def differences(self, store: Any) -> Iterator[str]:
        """Yield in words how *store* differs from the model."""

    @property
    @abstractmethod
    def model(self) -> Any:
        """What the operations so far give."""

    def model_up_to(self, number: int) -> None:
        """Perform the operations up to *number* on the model; it never goes back."""
        while self._modelled < number:
            self._modelled += 1
            self.write(self.model, self._modelled)
            if self._modelled % _PRUNE_EVERY == 0:
                self.prune()

    def prune(self) -> None:
        """Let the model forget what no read can reach: by default there is nothing."""
        return


class KeyValueWorkload(Workload):
    """Puts, overwriting puts and deletions of a few keys."""

    kind = "key-value"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._model = KeyValueModel()

    @property
    def model(self) -> KeyValueModel:
        return self._model

    @property
    def specification(self) -> KeyValue[bytes, bytes]:
        return KeyValue("crash")

    def write(self, store: KeyValueStore[bytes, bytes] | KeyValueModel, number: int) -> None:
        dice = _Dice(self.seed, number)
        key = b"key-%02d" % dice.below(_KEYS)
        store.put(key, None if dice.one_in(5) else b"%d:" % number + dice.some_bytes(200))

    def write_garbage(self, store: KeyValueStore[bytes, bytes], number: int) -> None:
        for key in range(0, _KEYS, 7):
            store.put(b"key-%02d" % key, b"uncommitted")
            store.put(b"garbage-%02d" % key, b"uncommitted")

    def differences(self, store: KeyValueStore[bytes, bytes]) -> Iterator[str]:
        found = dict(store.range())
        for key in sorted({*found, *self._model}):
            if found.get(key) != self._model.get(key):
                yield f"{key!r} is {found.get(key)!r}, expected {self._model.get(key)!r}"


class VersionedWorkload(Workload):
    """Versions and deletions, one in ten out of order, over many times the retention."""

    kind = "versioned"
    failpoints = (*Workload.failpoints, "vacuum.swept")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._model = VersionedModel(_RETENTION_MS)

    @property
    def model(self) -> VersionedModel:
        return self._model

    @property
    def specification(self) -> Versioned[bytes, bytes]:
        return Versioned("crash", history_retention_ms=_RETENTION_MS)

    def write(self, store: VersionedStore[bytes, bytes] | VersionedModel, number: int) -> None:
        dice = _Dice(self.seed, number)
        key = b"key-%02d" % dice.below(_KEYS)
        late = dice.below(2 * _RETENTION_MS) if dice.one_in(10) else 0
        value = None if dice.one_in(10) else b"%d:" % number + dice.some_bytes(50)
        store.put(key, value, max(0, number - late))

    def prune(self) -> None:
        self._model.forget_expired()

    def write_garbage(self, store: VersionedStore[bytes, bytes], number: int) -> None:
        for key in range(0, _KEYS, 7):
            store.put(b"key-%02d" % key, b"uncommitted", number + 10 * _RETENTION_MS)

    def differences(self, store: VersionedStore[bytes, bytes]) -> Iterator[str]:
        expected = self._model.stream_time_ms
        if store.stream_time_ms != expected:
            yield f"stream time is {store.stream_time_ms}, expected {expected}"
        for key in (b"key-%02d" % number for number in range(_KEYS)):
            found = list(store.history(key))
            versions = self._model.history(key, None, None)
            if found != versions:
                yield f"the history of {key!r} is {found!r}, expected {versions!r}"
        latest, expected_latest = list(store.scan_as_of()), self._model.scan_as_of(None)
        if latest != expected_latest:
            yield f"the latest versions are {latest!r}, expected {expected_latest!r}"


class TimeToLiveWorkload(Workload):
    """Values that expire, one in ten put out of order, over many times to live."""

    kind = "timestamped-key-value"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._model = TimestampedModel(_RETENTION_MS)

    @property
    def model(self) -> TimestampedModel:
        return self._model

    @property
    def specification(self) -> TimestampedKeyValue[bytes, bytes]:
        return TimestampedKeyValue("crash", ttl_ms=_RETENTION_MS)

    def write(
        self, store: TimestampedKeyValueStore[bytes, bytes] | TimestampedModel, number: int
    ) -> None:
        dice = _Dice(self.seed, number)
        # Half of the keys come only once, and are gone when they have expired.
        key = b"key-%02d" % dice.below(_KEYS) if dice.one_in(2) else b"once-%d" % number
        late = dice.below(2 * _RETENTION_MS) if dice.one_in(10) else 0
        value = None if dice.one_in(10) else b"%d:" % number + dice.some_bytes(50)
        store.put(key, value, max(0, number - late))

    def write_garbage(self, store: TimestampedKeyValueStore[bytes, bytes], number: int) -> None:
        for key in range(0, _KEYS, 7):
            store.put(b"key-%02d" % key, b"uncommitted", number + 10 * _RETENTION_MS)

    def differences(self, store: TimestampedKeyValueStore[bytes, bytes]) -> Iterator[str]:
        expected = self._model.stream_time_ms
        if store.stream_time_ms != expected:
            yield f"stream time is {store.stream_time_ms}, expected {expected}"
        found, living = dict(store.range()), dict(self._model.pairs())
        for key in sorted({*found, *living}):
            if found.get(key) != living.get(key):
                yield f"{key!r} is {found.get(key)!r}, expected {living.get(key)!r}"


class _RetainedWorkload(Workload):
    """Values and deletions, one in ten out of order, over many times the retention."""

    failpoints = (*Workload.failpoints, "vacuum.swept")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._model = RetainedModel(_RETENTION_MS)

    @property
    def model(self) -> RetainedModel:
        return self._model

    @abstractmethod
    def put(
        self, store: Any, key: bytes, time_ms: int, value: bytes | None, number: int, length_ms: int
    ) -> None:
        """Put a value into the store, or into the model, as operation *number*."""

    @abstractmethod
    def found(self, store: Any) -> list[tuple[bytes, int, bytes]]:
        """Return key, time and value of all that *store* finds."""

    def write(self, store: Any, number: int) -> None:
        dice = _Dice(self.seed, number)
        key = b"key-%02d" % dice.below(_KEYS)
        late = dice.below(2 * _RETENTION_MS) if dice.one_in(10) else 0
        value = None if dice.one_in(10) else b"%d:" % number + dice.some_bytes(50)
        time_ms = max(0, number - late) // 5 * 5
        self.put(store, key, time_ms, value, number, dice.below(3))

    def prune(self) -> None:
        self._model.forget_expired()

    def write_garbage(self, store: Any, number: int) -> None:
        for key in range(0, _KEYS, 7):
            time_ms = number + 10 * _RETENTION_MS
            self.put(store, b"key-%02d" % key, time_ms, b"uncommitted", number, 0)

    def differences(self, store: Any) -> Iterator[str]:
        expected = self._model.stream_time_ms
        if store.stream_time_ms != expected:
            yield f"stream time is {store.stream_time_ms}, expected {expected}"
        visible = [(key, time_ms, value) for (key, time_ms, _), value in self._model.visible()]
        found = self.found(store)
        if found != visible:
            missing = [row for row in visible if row not in found]
            surplus = [row for row in found if row not in visible]
            yield f"{missing!r} are missing, {surplus!r} should not be there, or the order is wrong"


class WindowWorkload(_RetainedWorkload):
    """A window store; with every second seed it retains duplicates."""

    kind = "window"

    @property
    def specification(self) -> Window[bytes, bytes]:
        return Window(
            "crash",
            retention_ms=_RETENTION_MS,
            window_size_ms=5,
            retain_duplicates=bool(self.seed % 2),
        )

    def put(
        self, store: Any, key: bytes, time_ms: int, value: bytes | None, number: int, length_ms: int
    ) -> None:
        if not isinstance(store, RetainedModel):
            store.put(key, value, time_ms)
        elif not self.seed % 2:
            store.put(key, time_ms, 0, value)
        elif value is not None:
            store.put(key, time_ms, number, value)

    def found(self, store: WindowStore[bytes, bytes]) -> list[tuple[bytes, int, bytes]]:
        return [(window.key, window.start_ms, window.value) for window in store.fetch_all()]


class SessionWorkload(_RetainedWorkload):
    """A session store."""

    kind = "session"

    @property
    def specification(self) -> Session[bytes, bytes]:
        return Session("crash", retention_ms=_RETENTION_MS)

    def put(
        self, store: Any, key: bytes, time_ms: int, value: bytes | None, number: int, length_ms: int
    ) -> None:
        start_ms = max(0, time_ms - length_ms)
        if isinstance(store, RetainedModel):
            store.put(key, time_ms, start_ms, value)
        else:
            store.put(key, start_ms, time_ms, value)

    def found(self, store: SessionStore[bytes, bytes]) -> list[tuple[bytes, int, bytes]]:
        return [(found.key, found.end_ms, found.value) for found in store.find_all_sessions()]


WORKLOADS: dict[str, type[Workload]] = {
    workload.kind: workload
    for workload in (
        KeyValueWorkload,
        TimeToLiveWorkload,
        VersionedWorkload,
        WindowWorkload,
        SessionWorkload,
    )
}
"""The workloads by kind."""
