"""Which changes a compaction leaves, by the kind of store (LOG-18).

Each rule keeps what a replay of everything would end with. It sees the changes twice: first all of
them, to make up its mind, and then again, to say which of them remain.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from statestores.changelog.frame import Frame, FrameKind
from statestores.changelog.rows import RECORDS
from statestores.errors import InvalidArgumentError
from statestores.spi.kinds import KINDS

_NONE: dict[int, int] = {}


class Survivors(Protocol):
    """Decides which changes remain."""

    def observe(self, frame: Frame) -> None:
        """Take note of the next frame, in the first pass."""

    def decide(self) -> None:
        """Make up the mind, after the first pass."""

    def among(self, frame: Frame) -> list[bool]:
        """Return whether each change of *frame* remains, in the second pass."""


def survivors_for(
    store_kind: str, history_retention_ms: int | None, retention_ms: int | None
) -> Survivors:
    """Return the rule for stores of *store_kind*.

    Raises:
        InvalidArgumentError: A retention is missing or negative, or the kind has none; or the log
            is one of records, none of which makes another void.
    """
    if store_kind == RECORDS:
        raise InvalidArgumentError("a log of records is not compacted: each of them counts")
    kind = KINDS[store_kind]
    retentions = {"history_retention_ms": history_retention_ms, "retention_ms": retention_ms}
    own = kind.retention
    for name, given in retentions.items():
        if name == own and (given is None or given < 0):
            raise InvalidArgumentError(
                f"to compact the changelog of a {store_kind} store, its {name} from 0 is needed, "
                f"got {given!r}"
            )
        if name != own and given is not None:
            raise InvalidArgumentError(
                f"a {store_kind} store has no {name}, got {given!r}; "
                f"it has {'no retention' if own is None else own}"
            )
    kept_ms = None if own is None else retentions[own]
    if kept_ms is None:
        return LastOfKeys() if kind.expires_by is None else LastOfStampedKeys()
    if kind.has_history:
        return LastOfVersions(kept_ms)
    return LastOfRetained(kept_ms, (each.name for each in kind.order))


class Choice(NamedTuple):
    """What a first pass over some frames has found."""

    survivors: Survivors
    """The rule, with its mind made up."""

    changes: int
    """How many changes the frames have."""

    cleared_at: int
    """The offset of the last clear, before which nothing remains; -1 without one."""


def choose(frames: Iterable[Frame], rule: Callable[[], Survivors]) -> Choice:
    """Show *frames* to a rule that *rule* makes, and makes anew after each clear."""
    survivors, changes, cleared_at = rule(), 0, -1
    for frame in frames:
        changes += frame.batch.num_rows
        if frame.kind is FrameKind.CLEAR:
            survivors, cleared_at = rule(), frame.base_offset
        else:
            survivors.observe(frame)
    survivors.decide()
    return Choice(survivors, changes, cleared_at)


class LastOfKeys:
    """The last change of each key remains."""

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}

    def observe(self, frame: Frame) -> None:
        self._last.update(zip(frame.batch.column(0).to_pylist(), frame.offsets, strict=True))

    def decide(self) -> None:
        pass

    def among(self, frame: Frame) -> list[bool]:
        keys, last = frame.batch.column(0).to_pylist(), self._last
        return [last[key] == offset for key, offset in zip(keys, frame.offsets, strict=True)]


class LastOfStampedKeys(LastOfKeys):
    """The last change of each key remains, and the one that moved stream time the furthest.

    Without it a replay would see less time pass, and show what has expired (TKV-5). It cannot come
    back to life: a later change of its key remains as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self._highest_ms = -1
        self._highest_at = -1

    def observe(self, frame: Frame) -> None:
        super().observe(frame)
        _, values, timestamps = (column.to_pylist() for column in frame.batch.columns[:3])
        for value, time_ms, offset in zip(values, timestamps, frame.offsets, strict=True):
            if value is not None and time_ms is not None and time_ms > self._highest_ms:
                self._highest_ms, self._highest_at = time_ms, offset

    def among(self, frame: Frame) -> list[bool]:
        remaining = zip(super().among(frame), frame.offsets, strict=True)
        return [last or offset == self._highest_at for last, offset in remaining]


class LastOfVersions:
    """The last change of each key and time remains, unless it came too late or has expired.

    Too late is what replay refuses: a time below the horizon when the change was made. It must go
    first, because it neither replaces nor ends another version, and because replay might accept
    it once a change before it, which had moved stream time on, is gone.

    An expired deletion goes only together with every older version of its key: they ended before
    it did (decision 15).
    """

    def __init__(self, history_retention_ms: int) -> None:
        self._retention_ms = history_retention_ms
        self._stream_time_ms = -1
        self._last: dict[bytes, dict[int, int]] = {}

    def observe(self, frame: Frame) -> None:
        if frame.batch.num_rows == 0:
            return
        keys, times = frame.batch.column(0).to_pylist(), frame.batch.column(2).to_pylist()
        last, stream_time_ms, retention_ms = self._last, self._stream_time_ms, self._retention_ms
        for key, time_ms, offset in zip(keys, times, frame.offsets, strict=True):
            if time_ms < stream_time_ms - retention_ms:
                continue
            stream_time_ms = max(stream_time_ms, time_ms)
            versions = last.get(key)
            if versions is None:
                last[key] = {time_ms: offset}
            else:
                versions[time_ms] = offset
        self._stream_time_ms = stream_time_ms

    def decide(self) -> None:
        horizon_ms = self._stream_time_ms - self._retention_ms
        for versions in self._last.values():
            if len(versions) > 1:
                for start_ms, end_ms in pairwise(sorted(versions)):
                    if end_ms <= horizon_ms:
                        del versions[start_ms]

    def among(self, frame: Frame) -> list[bool]:
        batch, last = frame.batch, self._last
        keys, times = batch.column(0).to_pylist(), batch.column(2).to_pylist()
        return [
            last.get(key, _NONE).get(time_ms) == offset
            for key, time_ms, offset in zip(keys, times, frame.offsets, strict=True)
        ]


class LastOfRetained:
    """The last change of each window or session remains, unless it came too late or has expired.

    Too late is what replay refuses: it must go first, for the reasons of `LastOfVersions`. The
    last change with the highest time remains even when it has expired immediately, with a retention
    of 0: it says what the stream time is.
    """

    def __init__(self, retention_ms: int, order: Iterable[str]) -> None:
        """Tell the rows of a key apart by the columns *order*, of which the first is their time."""
        self._retention_ms = retention_ms
        self._columns = ("key", *order)
        self._stream_time_ms = -1
        self._last: dict[tuple[Any, ...], int] = {}

    def _identities(self, frame: Frame) -> list[tuple[Any, ...]]:
        """Return what tells each change's window or session apart."""
        columns = (frame.batch.column(name).to_pylist() for name in self._columns)
        return list(zip(*columns, strict=True))

    def observe(self, frame: Frame) -> None:
        """Take note of the changes that came in time."""
        for identity, offset in zip(self._identities(frame), frame.offsets, strict=True):
            time_ms = identity[1]
            if time_ms > self._stream_time_ms - self._retention_ms:
                self._stream_time_ms = max(self._stream_time_ms, time_ms)
                self._last[identity] = offset

    def decide(self) -> None:
        """Forget what has expired."""
        horizon_ms = self._stream_time_ms - self._retention_ms
        self._last = {
            identity: offset
            for identity, offset in self._last.items()
            if identity[1] > horizon_ms or identity[1] == self._stream_time_ms
        }

    def among(self, frame: Frame) -> list[bool]:
        """Return which changes are the last ones."""
        identities = zip(self._identities(frame), frame.offsets, strict=True)
        return [self._last.get(identity) == offset for identity, offset in identities]
