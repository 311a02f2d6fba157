"""Schedules of writers, owners, readers, folders and vacuums over a store that does its worst.

One step of a schedule is one request of one actor, or a request that was on its way all the time.
How it fails is said by `played_actors`. What is driven is `statestores.object_log` itself.
"""

import collections
import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from played_actors import PlayedActors
from scheduled_store import Memory, frame, frames_of, position_of, told_by
from scope import WHOLE, Scope

from statestores.errors import CommitConflictError, FencedError, StoreLockedError
from statestores.object_log import catching_up, folding, owners, pieces, settling, vacuum, writes
from statestores.object_log.checkpoint import SegmentRef
from statestores.object_log.documents import Batch, Staged
from statestores.object_log.names import Names
from statestores.object_log.requests import Read, Steps
from statestores.object_log.view import View
from statestores.spi import Position, TopicPartition

NAMES = Names("s", "memory://explorer")

Item = tuple[str, int, int]
"""An id, and the first and last offset that it has."""


class Schedule(PlayedActors):
    """One run of all actors, in an order and with failures that its seed decides."""

    def __init__(
        self,
        seed: int,
        scope: Scope = WHOLE,
        names: Names = NAMES,
        beside: "Schedule | None" = None,
    ) -> None:
        """Play with the log *names*; *beside* another one, whose store and dice are the same."""
        if beside is None:
            super().__init__(scope, random.Random(seed), Memory())
        else:
            super().__init__(scope, beside.random, beside.memory)
        self.names = names
        self.acknowledged: dict[str, dict[int, tuple[int, int]]] = {}
        self.denied: set[str] = set()
        self.attempted: dict[str, dict[int, int]] = {}
        self.ids: dict[int, str] = {}
        self.clears: set[int] = set()
        self.batches: set[int] = set()
        self.reads: dict[str, list[dict[int, list[Item]]]] = collections.defaultdict(list)
        self.alone(folding.create_log(self.names, "log", "key-value"))

    def number(self, name: str) -> int:
        """Return the number by which the frames of *name* are told."""
        self.ids[len(self.ids)] = name
        return len(self.ids) - 1

    def touched(self, at_least: int) -> list[int]:
        """Return the partitions that a write changes."""
        partitions = self.scope.partitions
        return self.random.sample(partitions, self.random.randint(at_least, len(partitions)))

    def writer(self, name: str) -> Steps[None]:
        """Stage and commit writes of several partitions."""
        for n in range(self.scope.writes):
            write = yield from writes.begin_write(self.names, f"{name}.{n}")
            touched = self.touched(1)
            rows = {p: self.random.randint(1, 3) for p in touched}
            self.attempted[write] = rows
            number = self.number(write)
            for p in touched:
                yield from writes.stage(self.names, write, p, frame(number, 0, rows[p]))
            for attempt in range(8):  # what was denied is not there, so it may be tried again
                try:
                    follow = self.random.random() < 0.7
                    bases = yield from writes.commit_write(self.names, write, rows, follow=follow)
                except (CommitConflictError, StoreLockedError) as no:
                    self.counts[type(no).__name__] += 1
                    if attempt == 7 or "voided" in str(no):
                        self.denied.add(write)
                        break
                    if isinstance(no, StoreLockedError) and self.random.random() < 0.4:
                        yield from self.release(self.random.choice(touched), f"{write}{attempt}")
                else:
                    self.acknowledged[write] = {
                        p: (base, base + rows[p] - 1) for p, base in bases.items()
                    }
                    break

    def streamer(self, name: str) -> Steps[None]:
        """Commit what several tasks have staged, as batches of a stream that may come again."""
        for n in range(self.scope.writes):
            batch = Batch(stream="query", number=n)
            parts: dict[int, list[Staged]] = {}
            expected: dict[str, dict[int, int]] = {}
            touched = self.touched(0)
            overwrites = self.random.random() < 0.2
            for task in range(self.random.randint(1, 2)):
                write = yield from writes.begin_write(self.names, f"{name}.{n}.{task}")
                number = self.number(write)
                rows = {p: self.random.randint(1, 3) for p in touched}
                clears = overwrites and task == 0
                if clears:
                    rows = dict.fromkeys(touched, 1)
                    self.clears.add(number)
                expected[write] = rows
                for p in touched:
                    data = frame(number, 0, rows[p], clear=clears)
                    yield from writes.stage(self.names, write, p, data)
                    parts.setdefault(p, []).append(writes.staged_as(write, data, "a frame"))
            self.attempted |= expected
            watched = self.random.choice(((), self.scope.partitions))
            for attempt in range(8):
                try:
                    bases = yield from self.commit(f"{name}.{n}", parts, batch, watched)
                except (CommitConflictError, StoreLockedError) as no:
                    self.counts[type(no).__name__] += 1
                    if attempt == 7 or "voided" in str(no):
                        self.denied |= expected.keys()
                        break
                    if isinstance(no, StoreLockedError):
                        yield from self.release(
                            self.random.choice(self.scope.partitions), f"{name}{n}{attempt}"
                        )
                else:
                    self.settle_batch(batch, expected, bases, touched)
                    break

    def commit(
        self, unique: str, parts: dict[int, list[Staged]], batch: Batch, watched: tuple[int, ...]
    ) -> Steps[dict[int, int] | None]:
        """Commit *parts*; where all are watched, only behind the very ends that were seen."""
        if not watched:
            return (yield from writes.commit_staged(self.names, unique, parts, batch=batch))
        view = yield from catching_up.catch_up(self.names, self.scope.partitions, tails=True)
        ends = {p: view.parts[p].end for p in self.scope.partitions}

        def accept(found: Mapping[int, int]) -> None:
            if found != ends:
                raise CommitConflictError(f"{unique} expects {ends}, and {found} is there")

        bases = yield from writes.commit_staged(
            self.names, unique, parts, batch=batch, watched=watched, accept=accept
        )
        for p, base in (bases or {}).items():
            assert base == ends[p], f"{unique} was not to follow anything"
        return bases

    def settle_batch(
        self,
        batch: Batch,
        expected: dict[str, dict[int, int]],
        bases: dict[int, int] | None,
        touched: list[int],
    ) -> None:
        """Note what became of a batch, of which only one attempt may count."""
        if bases is None:
            self.denied |= expected.keys()
            self.counts["batch came again"] += 1
            return
        assert batch.number not in self.batches, f"{batch} was applied twice"
        self.batches.add(batch.number)
        ends = dict(bases)
        for write, rows in expected.items() if touched else ():
            self.acknowledged[write] = {p: (ends[p], ends[p] + rows[p] - 1) for p in touched}
            for p in touched:
                ends[p] += rows[p]

    def release(self, partition: int, unique: str) -> Steps[None]:
        """Have nobody own *partition*."""
        try:
            yield from owners.take(self.names, partition, unique, hold=False)
        except FencedError:
            self.counts["fenced when releasing"] += 1

    def owner(self, name: str) -> Steps[None]:
        """Take partitions over, and append to them."""
        for n in range(self.scope.grants):
            p = self.random.choice(self.scope.partitions)
            try:
                grant, view = yield from owners.take(self.names, p, f"{name}.{n}")
            except FencedError:
                continue
            end = view.parts[p].end
            for i in range(self.random.randint(1, self.scope.appends)):
                unique, rows = f"{name}.{n}.{i}", self.random.randint(1, 3)
                number = self.number(unique)
                clear = self.random.random() < 0.15
                if clear:
                    rows = 1
                    self.clears.add(number)
                self.attempted[unique] = {p: rows}
                try:
                    data = frame(number, end, rows, clear=clear)
                    yield from owners.append(self.names, grant, data)
                except FencedError:
                    self.denied.add(unique)
                    self.counts["fenced"] += 1
                    break
                self.acknowledged[unique] = {p: (end, end + rows - 1)}
                end += rows
            else:
                chance = self.random.random()  # so that writers may write again
                if chance < 0.3:
                    yield from self.release(p, f"{name}.{n}r")
                elif chance < 0.7:
                    yield from owners.give_back(self.names, grant, f"{name}.{n}b")

    def reader(self, name: str) -> Steps[None]:
        """Read everything, anew or on from before."""
        view: View | None = None
        for _ in range(self.scope.reads):
            if self.random.random() < 0.3:
                view = None
            view = yield from catching_up.catch_up(
                self.names, self.scope.partitions, view, tails=True
            )
            shown = {}
            for p in self.scope.partitions:
                shown[p] = yield from self.content(view, p)
            self.reads[name].append(shown)

    def content(self, view: View, partition: int) -> Steps[list[Item]]:
        """Return what *view* has of *partition*, as a log would be read."""
        items = yield from self.before(view, partition)
        offset, end = view.parts[partition].begin, view.parts[partition].end
        position: dict[TopicPartition, int] = {}
        expected = view.parts[partition].position
        while offset < end:
            view, _, data = yield from pieces.read_piece(self.names, partition, view, offset)
            for each in frames_of(data):
                header, number = told_by(each)
                if header.base_offset < offset:  # merged with what was read before
                    continue
                if header.base_offset >= end:
                    break
                assert header.base_offset == offset
                if number in self.clears:
                    position.clear()
                for each_input, offset_of in position_of(number).items():
                    position[each_input] = max(offset_of, position.get(each_input, -1))
                items.append((self.ids[number], header.base_offset, header.last_offset))
                offset = header.last_offset + 1
        assert position == expected, f"{partition}: the position is {expected}, not {position}"
        return items

    def before(self, view: View, partition: int) -> Steps[list[Item]]:
        """Return what *partition* has before its first offset: nothing, as long as that is 0."""
        assert view.parts[partition].begin == 0
        yield from ()
        return []

    def folder(self, name: str) -> Steps[None]:
        """Fold, merge segments, vacuum."""
        for n in range(self.scope.folds):
            yield from folding.fold(self.names, f"{name}{n}", self.scope.partitions)
            if self.random.random() < 0.5:
                yield from self.merge(f"{name}{n}m", self.random.choice(self.scope.partitions))
            if self.random.random() < 0.5:
                before = self.random.choice((None, 0, 2, 5))
                yield from vacuum.vacuum(self.names, f"{name}{n}v", void_before=before)

    def merge(self, unique: str, partition: int) -> Steps[None]:
        """Make one segment of those of *partition*, as a compaction does."""
        known = yield from settling.read_checkpoint(self.names)
        segments = known.checkpoint.part(partition).segments
        frames: list[bytes] = []
        for each in segments:
            found = yield Read(each.name)
            if found is None:
                return  # somebody else has merged them
            frames += frames_of(found.data)
        if len(segments) < 2:
            return
        end = segments[-1].end
        data = b"".join(
            [
                folding.segment_head(
                    "key-value", segments[0].base, end, Position(), compacted=True
                ),
                *frames,
            ]
        )
        name = self.names.segment(unique, partition)
        yield from settling.settle(self.names, name, data)
        merged = SegmentRef(name, segments[0].base, end, len(data), compacted=True)
        yield from folding.publish_segments(self.names, f"{unique}p", partition, known, (merged,))

    def actors(self) -> dict[str, Steps[Any]]:
        """Return who plays."""
        actors: dict[str, Steps[Any]] = {}
        for kind in (self.writer, self.streamer, self.owner, self.reader, self.folder):
            tag = "c" if kind == self.folder else kind.__name__[0]
            actors |= {f"{tag}{i}": kind(f"{tag}{i}") for i in range(self.twins())}
        return actors

    def check(self) -> dict[str, dict[int, tuple[int, int]]]:
        """Compare what is there with what everybody was told, and return what is where."""
        view = self.alone(catching_up.catch_up(self.names, self.scope.partitions, tails=True))
        final = {p: self.alone(self.content(view, p)) for p in self.scope.partitions}
        assert view.batches.get("query", -1) >= max(self.batches, default=-1)
        where: dict[str, dict[int, tuple[int, int]]] = collections.defaultdict(dict)
        for p, items in final.items():
            for name, base, last in items:
                assert p not in where[name], f"{p}: {name} is there twice"
                where[name][p] = (base, last)
        for name, at in self.acknowledged.items():
            assert where.get(name) == at, f"{name}, acknowledged at {at}, is {where.get(name)}"
        for name in self.denied:
            assert name not in where, f"{name} was denied and is there"
        for name, at in where.items():
            sizes = {p: last - base + 1 for p, (base, last) in at.items()}
            assert sizes == self.attempted[name], f"{name} is torn: {at}"
        for name, reads in self.reads.items():
            self.check_reads(name, reads, final)
        return where

    def check_reads(
        self,
        name: str,
        reads: list[dict[int, list[Item]]],
        final: dict[int, list[Item]],
    ) -> None:
        """Compare what the reader *name* saw with what there is in the end."""
        for read in reads:
            seen = collections.defaultdict(set)
            for p, items in read.items():
                assert final[p][: len(items)] == items, f"{name} saw {items[-3:]} in {p}"
                for item in items:
                    seen[item[0]].add(p)
            for written, parts in seen.items():
                assert parts == set(self.attempted[written]), f"{name} saw {written} torn"
        for before, after in pairwise(reads):
            for p in self.scope.partitions:
                assert after[p][: len(before[p])] == before[p], f"{name} went back in {p}"
        self.counts["reads"] += len(reads)
