"""Schedules of the drivers of one operator with two stores, of whom any may sleep, die and wake up.

Beside them others write to both stores, own partitions, fold, vacuum and void. What is driven is
`statestores.staging.operator_steps` itself, over the same store as in `schedules`.
"""

from typing import TYPE_CHECKING, Any

from scheduled_store import frame
from schedules import NAMES, Schedule
from scope import WHOLE, Scope

from statestores.errors import (
    CommitConflictError,
    CommitInDoubtError,
    StoreLockedError,
    StoreReshardedError,
)
from statestores.object_log import catching_up, settling, writes
from statestores.object_log.names import Names, operator_write_id
from statestores.object_log.requests import Read, Steps
from statestores.staging import operator_fence as fences
from statestores.staging import operator_steps as steps
from statestores.staging.operator_record import OperatorNames, OperatorRecord, StoreWrite

if TYPE_CHECKING:
    from statestores.object_log.documents import Staged

OPERATOR = OperatorNames("op", NAMES.url)
SECOND = Names("t", NAMES.url)


class OperatorSchedule(Schedule):
    """One run of all actors; the operator's first store is that of `Schedule`."""

    def __init__(self, seed: int, scope: Scope = WHOLE) -> None:
        super().__init__(seed, scope)
        self.second = self.other(seed)
        self.next_batch = 0
        self.emitted: dict[int, str] = {}
        self.micro_batches: dict[str, int] = {}

    def other(self, seed: int) -> Schedule:
        """Return who plays with the operator's second store."""
        return Schedule(seed, self.scope, SECOND, beside=self)

    def opened_logs(self) -> Steps[tuple[Names, Names]]:
        """Return where the two stores are for a driver that opens the root."""
        yield from ()
        return NAMES, SECOND

    def actors(self) -> dict[str, Steps[Any]]:
        """Return the drivers, and who else is at work on the two stores."""
        drivers = self.random.randint(2, 3) if self.scope.is_brief else 3
        actors: dict[str, Steps[Any]] = {f"d{i}": self.driver(f"d{i}") for i in range(drivers)}
        if self.random.random() < 0.5:
            actors |= {"w": self.writer("w"), "v": self.second.writer("v")}
        if self.random.random() < 0.5:
            actors |= {"o": self.owner("o"), "p": self.second.owner("p")}
        if self.takes_part():
            actors |= {"c": self.folder("c"), "e": self.second.folder("e")}
        return actors

    def driver(self, name: str) -> Steps[None]:
        """Run micro-batches, from where the checkpoint says, in one life after the other."""
        for life in range(self.scope.lives):
            try:
                yield from self.live(f"{name}.{life}", self.next_batch)
            except CommitConflictError:
                self.counts["conflicting drivers"] += 1
            except CommitInDoubtError:
                self.counts["in doubt"] += 1
            except StoreLockedError:
                self.counts["StoreLockedError"] += 1
                yield from self.free(self.random.choice(self.scope.partitions), f"{name}{life}")
            except StoreReshardedError:
                self.counts["told of a reshard"] += 1

    def free(self, partition: int, unique: str) -> Steps[None]:
        """Have nobody own *partition*, of either store."""
        yield from self.release(partition, f"{unique}r")
        yield from self.second.release(partition, f"{unique}t")

    def live(self, name: str, number: int) -> Steps[None]:
        """Run micro-batches from *number* on."""
        last: steps.Last | None = None
        chosen = yield from steps.choose_anchor(OPERATOR, "s")
        assert chosen == "s"
        for turn in range(self.scope.micro_batches):
            anchor, second = yield from self.opened_logs()
            last = yield from steps.find_last(OPERATOR, anchor, self.scope.partitions, last)
            record = last.record
            done = -1 if record is None else record.told["batch"]
            assert done >= number - 1, f"{number - 1} was given to the sink, and {done} is the last"
            if record is not None:
                yield from steps.carry_out(OPERATOR, record, {"t": second}, f"{name}{turn}c")
            yield from self.begin(last, anchor, second, f"{name}.{turn}")
            if done > number:
                return  # this driver has slept
            if done < number:
                record = yield from self.compute(f"{name}.{turn}", number, last, anchor, second)
            assert record is not None
            yield from self.give(number, record)
            number += 1

    def begin(self, last: steps.Last, anchor: Names, second: Names, unique: str) -> Steps[None]:
        """Do what a driver does behind the *last* record, before it computes the next one."""
        yield from fences.pass_on(last, [second], unique)

    def compute(
        self, name: str, number: int, last: steps.Last, anchor: Names, second: Names
    ) -> Steps[OperatorRecord]:
        """Compute and commit a micro-batch."""
        before = last.record
        begun = 0 if before is None else before.number + 1
        write = operator_write_id("op", begun, name)
        self.micro_batches[write] = number
        seen = yield from catching_up.catch_up(second, self.scope.partitions, tails=True)
        stores = {
            "s": (yield from self.stage(self, anchor, write, last.view)),
            "t": (yield from self.stage(self.second, second, write, seen)),
        }
        yield from settling.settle(NAMES, OPERATOR.outputs_of(write) + "0", write.encode())
        record = OperatorRecord(
            number=0,
            id=write,
            after=None if before is None else before.number,
            at_ms=0,
            stores=stores,
            told={"batch": number},
        )
        try:
            record = yield from steps.claim(OPERATOR, record)
            yield from steps.commit(OPERATOR, anchor, record, last, f"{name}m")
        except (CommitConflictError, StoreLockedError, StoreReshardedError):
            self.denied.add(write)
            self.second.denied.add(write)
            raise
        if self.attempted[write]:
            self.acknowledged[write] = {
                p: (stores["s"].ends[p], stores["s"].ends[p] + rows - 1)
                for p, rows in self.attempted[write].items()
            }
        yield from steps.carry_out(OPERATOR, record, {"t": second}, f"{name}c")
        if self.random.random() < 0.7:
            yield from steps.sweep(OPERATOR, record)
        return record

    def stage(self, of: Schedule, names: Names, write: str, view: Any) -> Steps[StoreWrite]:
        """Stage what the micro-batch *write* changes in one of the stores."""
        touched = self.touched(0)
        staged: dict[int, tuple[Staged, ...]] = {}
        number = of.number(write)
        of.attempted[write] = {p: self.random.randint(1, 3) for p in touched}
        for p, rows in of.attempted[write].items():
            data = frame(number, 0, rows)
            yield from writes.stage(names, write, p, data)
            staged[p] = (writes.staged_as(write, data, "a frame"),)
        return StoreWrite(ends={p: view.parts[p].end for p in self.scope.partitions}, staged=staged)

    def give(self, number: int, record: OperatorRecord) -> Steps[None]:
        """Give a sink what *record* has emitted, which is what others have given for *number*."""
        assert self.emitted.setdefault(number, record.id) == record.id, f"{number} has two outputs"
        output = yield Read(OPERATOR.outputs_of(record.id) + "0")
        if output is None:  # then it is over, and this driver has slept
            anchor, _ = yield from self.opened_logs()
            known = yield from steps.find_last(OPERATOR, anchor, ())
            assert known.record is not None
            assert known.record.number > record.number, f"the output of {number} is gone"
        self.next_batch = max(self.next_batch, number + 1)

    def check(self) -> dict[str, dict[int, tuple[int, int]]]:
        """Have the next driver begin; then nothing of a micro-batch is missing, nor there twice."""
        self.names, self.second.names = self.alone(self.opened_logs())
        last = self.alone(steps.find_last(OPERATOR, self.names, self.scope.partitions))
        if last.record is not None:
            for p in self.scope.partitions:
                self.alone(self.second.release(p, f"end{p}"))
            self.alone(steps.carry_out(OPERATOR, last.record, {"t": self.second.names}, "end"))
        first, second = super().check(), self.second.check()
        counted = [write for write in self.micro_batches if write in first or write in second]
        numbers = [self.micro_batches[write] for write in counted]
        assert len(set(numbers)) == len(numbers), f"a micro-batch counts twice: {counted}"
        for write in {*counted, *self.emitted.values()}:
            for where, of in ((first, self), (second, self.second)):
                assert where.get(write, {}).keys() == of.attempted[write].keys(), f"half of {write}"
        for where in (first, second):
            for p in self.scope.partitions:
                there = [write for write in counted if p in where.get(write, {})]
                there.sort(key=lambda write: where[write][p])
                order = [self.micro_batches[write] for write in there]
                assert order == sorted(order), f"{p} has micro-batches in the order {order}"
        self.counts["micro-batches"] += len(self.emitted)
        return first
