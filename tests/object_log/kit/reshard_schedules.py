"""Schedules of reshards in place, beside whom others write, own, read, fold, vacuum and void.

Everybody opens the store anew when they are told that it was resharded, and not before: who sleeps
goes on with a log that has ended. The partitions stay as many as they were and keep their items, so
that what is there in the end can be compared with what everybody was told. What is driven is
`statestores.object_log`; the root's file is a stand-in, whose one field says where to look.
"""

import copy
import json
from dataclasses import replace
from typing import Any

from played_actors import STEPS
from scheduled_store import frame
from schedules import NAMES, Item, Schedule
from scope import WHOLE, Scope

from statestores.errors import CommitConflictError, StoreLockedError, StoreReshardedError
from statestores.object_log import catching_up, settling, vacuum, writes
from statestores.object_log.documents import End, Take, Void, unpack_root_entry
from statestores.object_log.generations import ending, retiring
from statestores.object_log.names import Names, write_id
from statestores.object_log.requests import Create, Delete, ListNames, Read, Replace, Steps
from statestores.object_log.view import View
from statestores.spi import Position
from statestores.storage import Outcome


class ReshardSchedule(Schedule):
    """One run of all actors. Each of their lives is a copy that has the names it has opened."""

    by_tasks = False

    def __init__(
        self,
        seed: int,
        scope: Scope = WHOLE,
        names: Names = NAMES,
        beside: Schedule | None = None,
    ) -> None:
        """Play with the store of *names*, as `Schedule`."""
        super().__init__(seed, scope, names, beside)
        self.root = f"{names.store}.json"
        self.memory.execute(Create(self.root, pack("", may_have_ended=False)))

    def actors(self) -> dict[str, Steps[Any]]:
        """Return the reshards, and who else is at work."""
        chance = self.random
        kinds = {"x0": "resharder", "x1": "resharder", "m": "mover", "c0": "tidier", "c1": "tidier"}
        kinds |= {"r0": "reader", "r1": "reader", "z": "owner"}
        if self.scope.is_brief:
            kinds = {name: kind for name, kind in kinds.items() if self.takes_part()}
        for kind in ("writer", "owner", "streamer"):
            kinds |= {f"{kind[0]}{i}": kind for i in range(chance.choice((0, 1, 2)))}
        return {name: self.lives(kind, name) for name, kind in kinds.items()}

    def sleeps_of(self, name: str, told: Any) -> tuple[float, tuple[int, ...]]:
        """Return it; one owner sleeps until everybody else is done, and what has ended is gone.

        Most of all when nobody can tell it what became of its append.
        """
        if name != "z":
            return super().sleeps_of(name, told)
        return 0.7 if told is Outcome.UNKNOWN else 0.12, (STEPS,)

    def lives(self, kind: str, name: str) -> Steps[None]:
        """Be of one *kind*, and open the store anew whenever it was resharded."""
        for life in range(self.scope.openings):
            client = copy.copy(self)
            client.names = yield from self.opened()
            tag = name if kind == "reader" else f"{name}~{life}"
            try:
                yield from getattr(client, kind)(tag)
            except StoreReshardedError:
                self.counts["told of a reshard"] += 1
                # Nothing of what was not acknowledged is there, or ever will be.
                mine = {write for write in self.attempted if f"{tag}." in write}
                self.denied |= mine - self.acknowledged.keys()
            else:
                return

    def resharder(self, name: str) -> Steps[None]:
        """Reshard, from what is there at one moment."""
        view = yield from catching_up.catch_up(self.names, self.scope.partitions, tails=True)
        try:
            ending.check_unowned(self.names, view)
        except StoreLockedError:
            for p in self.scope.partitions:
                if view.parts[p].grant is not None:
                    yield from self.release(p, f"{name}r{p}")
            view = yield from catching_up.catch_up(self.names, self.scope.partitions, tails=True)
        made = replace(self.names, generation=write_id(view.next, name))
        try:
            yield from self.reshard(view, made)
        except (CommitConflictError, StoreLockedError, StoreReshardedError) as no:
            self.counts[f"reshard: {type(no).__name__}"] += 1
            for each in (yield ListNames(f"{made.home}/")):
                yield Delete(each)
            raise StoreReshardedError from no  # once more

    def reshard(self, view: View, made: Names) -> Steps[None]:
        """Have the log *made* go on behind *view*."""
        ending.check_unowned(self.names, view)
        if self.by_tasks:
            yield from settling.settle(made, moved_by(made), made.generation.encode())
        for p in self.scope.partitions:
            items = yield from self.content(view, p)
            yield from settling.settle(made, base_of(made, view, p), json.dumps(items).encode())
        # Where it is so, the task that needs them raises.
        is_gone = self.by_tasks and (yield Read(moved_by(made))) is None
        begin = max(view.parts[p].end for p in self.scope.partitions) + 1
        end = ending.end_behind(view, made.generation, partitions=len(self.scope.partitions))
        unique = f"{made.generation}-checkpoint"
        yield from ending.begin_next(made, view, end, unique, begin=begin, position=Position())
        yield from self.note(made.generation)
        yield from self.fence(view, made)
        yield from ending.end_log(self.names, view, end)
        self.check_nothing_between(view, end)
        assert not is_gone, "rows that a reshard moved were removed, and it counts"
        self.counts["reshards"] += 1
        yield from self.note(None)
        if self.random.random() < 0.7:
            yield from retiring.retire(self.names, f"{made.generation}-retired")

    def fence(self, view: View, made: Names) -> Steps[None]:
        """Keep operators out of the store, of which nobody is one here."""
        yield from ()

    def check_nothing_between(self, view: View, end: End) -> None:
        """Accept a log of which nothing was taken or written between *view* and *end* (RSH-18)."""
        floor = self.alone(settling.read_checkpoint(self.names)).checkpoint.next
        for number in range(max(view.next, floor), end.next):
            name = self.names.root(number)
            entry = unpack_root_entry(self.memory.objects[name].data, name)
            if entry == end:
                return
            released = isinstance(entry, Take) and not entry.hold and entry.closed is None
            assert released or isinstance(entry, Void), f"{entry} came first"

    def note(self, about_to: str | None) -> Steps[None]:
        """Have the root say that a log may end, if one is *about_to*, or where the store goes on.

        Raises:
            StoreReshardedError: It goes on elsewhere already.
        """
        while True:
            found = yield Read(self.root)
            names, may_have_ended = yield from self.followed(found.data)
            if about_to is not None and names.generation != self.names.generation:
                raise StoreReshardedError(names.generation)
            data = pack(names.generation, may_have_ended=may_have_ended or about_to is not None)
            if found.data == data:
                return
            yield Replace(self.root, data, found.tag)

    def opened(self) -> Steps[Names]:
        """Return the names that who opens the root now finds."""
        found = yield Read(self.root)
        names, _ = yield from self.followed(found.data)
        return names

    def followed(self, data: bytes) -> Steps[tuple[Names, bool]]:
        """Return where the store goes on, and whether that may have ended as well."""
        fields = json.loads(data)
        log, may_have_ended = fields["log"], fields["may_have_ended"]
        names = replace(self.names, generation=log)
        end = (yield from ending.find_end(names)) if may_have_ended else None
        if end is None:
            return names, may_have_ended
        return replace(names, generation=end.generation), False

    def before(self, view: View, partition: int) -> Steps[list[Item]]:
        """Return what the reshard has found that made the log of *view*."""
        if view.parts[partition].begin == 0:
            return []
        names = replace(self.names, generation=view.checkpoint.generation)
        found = yield Read(base_of(names, view, partition))
        if found is None:
            yield from catching_up.catch_up(names, (), view)  # says why, if there is a reason
            raise AssertionError(f"{names.home} has lost what it began with")
        return [(item, first, last) for item, first, last in json.loads(found.data)]

    def mover(self, name: str) -> Steps[None]:
        """Stage under one log, and commit where the store is by then, as a driver of Spark may."""
        for n in range(2):
            write = yield from writes.begin_write(self.names, f"{name}.{n}")
            number = self.number(write)
            self.attempted[write] = {0: 1}
            data = frame(number, 0, 1)
            yield from writes.stage(self.names, write, 0, data)
            staged = {0: [writes.staged_as(write, data, "a frame")]}
            now = yield from self.opened()
            try:
                bases = yield from writes.commit_staged(now, write, staged)
            except (CommitConflictError, StoreLockedError) as no:
                self.counts[f"mover: {type(no).__name__}"] += 1
                self.denied.add(write)
                yield from self.release(0, f"{name}.{n}r")
                continue
            assert bases is not None
            self.acknowledged[write] = {0: (bases[0], bases[0])}

    def tidier(self, name: str) -> Steps[None]:
        """Fold and merge, and remove what can go of this log, of those before, and of the dead."""
        yield from self.folder(name)
        listed = yield ListNames(self.names.generations)
        view = yield from catching_up.catch_up(self.names, ())
        if self.random.random() < 0.5:
            yield from vacuum.vacuum(self.names, f"{name}v", void_before=view.next)
        self.counts["removed"] += yield from retiring.remove_dead(self.names, listed)
        for former in view.checkpoint.former:
            yield from retiring.retire(replace(self.names, generation=former), f"{name}-{former}")

    def check(self) -> dict[str, dict[int, tuple[int, int]]]:
        """Compare, where the store is in the end."""
        self.names = self.alone(self.opened())
        found = super().check()
        listed = [name for name in self.memory.objects if "/generations/" in name]
        self.counts["removed in the end"] += self.alone(retiring.remove_dead(self.names, listed))
        known = self.alone(settling.read_checkpoint(self.names)).checkpoint
        counted = {known.generation, *known.former}
        left = [name for name in self.memory.objects if "/scratch/" in name]
        assert [name for name in left if self.names.generation_of(name) in counted] == []
        return found


class TasksSchedule(ReshardSchedule):
    """The same, where rows pass from task to task as objects."""

    by_tasks = True


def moved_by(names: Names) -> str:
    """Return the name of the rows that a reshard moves which makes the log of *names*."""
    return f"{names.scratch}{names.generation}/0"


def pack(log: str, *, may_have_ended: bool) -> bytes:
    """Return what the root says."""
    return json.dumps({"log": log, "may_have_ended": may_have_ended}).encode()


def base_of(names: Names, view: View, partition: int) -> str:
    """Return the name of what a log has before its first offset: its snapshot."""
    return f"{names.snapshots(view.checkpoint.log, partition)}base"
