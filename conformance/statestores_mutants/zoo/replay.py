"""Stores that give and take changes wrongly: replay, load, export."""

from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import pairwise

from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi import Changes, CommittedContent, Position
from statestores_mutants.registry import mutant


@mutant("COM-40", "COM-29")
class BatchIsJudgedByItsLastRecord(EngineVersionedStore):
    """A replayed batch moves stream time first, and then its records are judged.

    Imitates Kafka's `restoreBatch` (VER-25): what is restored depends on how the log is cut.
    """

    def replay(self, changes: Changes) -> None:
        times = list(changes.times_ms or ())
        before = self._stream_time
        if (
            times
            and all(type(time) is int and time >= 0 for time in times)
            and len({len(times), len(changes.keys), len(changes.values)}) == 1
        ):
            self._stream_time = max(self._stream_time, *times)
        try:
            super().replay(changes)
        except BaseException:
            self._stream_time = before
            raise


@mutant("COM-29", "COM-32")
class ReplayPutsIfAbsent(EngineKeyValueStore):
    """A replayed change does not replace what an earlier batch has left pending.

    Imitates a restore that takes the buffer for newer than the log.
    """

    def replay(self, changes: Changes) -> None:
        before = dict(self._rows)
        super().replay(changes)
        self._rows.update(before)


@mutant("COM-33")
class ReplayCommits(EngineKeyValueStore):
    """Replayed changes are committed at once, without an offset.

    Imitates a restore that writes straight to the store: after a crash it holds half a log
    (KAFKA-14412).
    """

    def replay(self, changes: Changes) -> None:
        super().replay(changes)
        self.commit({})


@mutant("COM-35", "COM-17")
class DeletionsAreNotAmongTheChanges(EngineKeyValueStore):
    """`pending_changes` leaves deletions out.

    Imitates KAFKA-7895, and every changelog that forgets its tombstones.
    """

    def pending_changes(self) -> Changes:
        changes = super().pending_changes()
        kept = [
            pair for pair in zip(changes.keys, changes.values, strict=True) if pair[1] is not None
        ]
        return Changes([key for key, _ in kept], [value for _, value in kept])


@mutant("COM-35", "COM-17")
class DeletionsOfVersionsAreNotAmongTheChanges(EngineVersionedStore):
    """`pending_changes` of a versioned store leaves deletions out.

    Imitates KAFKA-7895 once more, where a deletion only shows as a version that ends.
    """

    def pending_changes(self) -> Changes:
        changes = super().pending_changes()
        times = changes.times_ms or ()
        rows = zip(changes.keys, changes.values, times, strict=True)
        kept = [row for row in rows if row[1] is not None]
        return Changes([k for k, _, _ in kept], [v for _, v, _ in kept], [t for _, _, t in kept])


@mutant("COM-41", "COM-17", "COM-29")
class ChangesAreInTheOrderOfWriting(EngineVersionedStore):
    """`pending_changes` of a versioned store are in the order of their keys.

    Imitates a changelog that is written from a sorted buffer: some of it is late when it is read.
    """

    def pending_changes(self) -> Changes:
        changes = super().pending_changes()
        rows = sorted(
            zip(changes.keys, changes.values, changes.times_ms or (), strict=True),
            key=lambda row: row[0],
        )
        return Changes([k for k, _, _ in rows], [v for _, v, _ in rows], [t for _, _, t in rows])


@mutant("COM-35", "COM-17")
class AskingForChangesTakesThem(EngineKeyValueStore):
    """`pending_changes` empties the buffer.

    Imitates a queue that is drained: a changelog append that fails has lost the writes.
    """

    def pending_changes(self) -> Changes:
        changes = super().pending_changes()
        self._forget_pending(committed=False)
        return changes


@mutant("COM-31")
class FirstChangeOfABatchWins(EngineKeyValueStore):
    """Of several changes of one key in a replayed batch, the first counts.

    Imitates deduplication in the wrong direction (compaction keeps the last).
    """

    def replay(self, changes: Changes) -> None:
        columns = list(changes.keys)[::-1], list(changes.values)[::-1]
        super().replay(Changes(*columns, changes.times_ms))


@mutant("COM-20")
class LoadIsReplay(EngineVersionedStore):
    """A load judges its versions by stream time, as a replay does.

    Imitates Kafka before KIP-1035: a snapshot in key order loses what is old (KAFKA-13499).
    """

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        if stream_time_ms is not None and changes.times_ms is not None:
            self._stream_time = max(self._stream_time, stream_time_ms)
        self.replay(changes)


Chunks = Generator[Changes, None, None]


def _all_but_last(chunks: Iterator[Changes]) -> Chunks:
    for chunk, _ in pairwise(chunks):
        yield chunk


@mutant("COM-20")
class LastChunkIsNotExported(EngineKeyValueStore):
    """`committed_content` leaves out the last chunk when there are several.

    Imitates SPARK-21696: a partial snapshot is read as a complete one.
    """

    def committed_content(self) -> CommittedContent:
        content = super().committed_content()
        first, rest = next(content.changes, None), content.changes

        def chunks() -> Chunks:
            if first is not None:
                yield first
            yield from _all_but_last(rest)

        return replace(content, changes=chunks())


@mutant("COM-20", "COM-36")
class ExportedOffsetsAreOfTheEnd(EngineKeyValueStore):
    """The offsets and position of `committed_content` are read when its rows have been.

    Imitates SPARK-45419: a snapshot whose parts are of two moments.
    """

    def committed_content(self) -> CommittedContent:
        content = super().committed_content()
        return replace(content, offsets={}, position=Position())


@mutant("COM-36")
class PendingWritesAreExported(EngineKeyValueStore):
    """`committed_content` holds what is pending, under the committed offset.

    Imitates KAFKA-14412: a snapshot ahead of its offset counts records twice.
    """

    def committed_content(self) -> CommittedContent:
        content = super().committed_content()
        return replace(content, changes=_and(content.changes, super().pending_changes()))


def _and(chunks: Iterator[Changes], last: Changes) -> Chunks:
    yield from chunks
    if len(last):
        yield last


@mutant("COM-38")
class ExportIsInHashOrder(EngineKeyValueStore):
    """The rows of a chunk of `committed_content` come from the last to the first.

    Imitates content that is taken from a hash map.
    """

    def committed_content(self) -> CommittedContent:
        content = super().committed_content()
        turned = (Changes(c.keys[::-1], c.values[::-1]) for c in content.changes)
        return replace(content, changes=turned)


@mutant("COM-38")
class ExportIsOneChunk(EngineKeyValueStore):
    """`committed_content` gives all rows at once.

    Imitates `list(rows)`: the memory of a backup grows with the store.
    """

    def committed_content(self) -> CommittedContent:
        content = super().committed_content()
        keys: list[bytes] = []
        values: list[bytes | None] = []
        for chunk in content.changes:
            keys += chunk.keys
            values += chunk.values
        return replace(content, changes=_and(iter(()), Changes(keys, values)))
