"""Schedules of an operator whose two stores are resharded in place while its drivers are at work.

Drivers run micro-batches, and open the root anew for each; both stores are resharded, several times
and by several who sleep and die at any step, beside writers, owners, readers, folds and vacuums. As
in `reshard_schedules` the stores keep their partitions and items.
"""

import copy
from typing import Any

from operator_schedules import OPERATOR, SECOND, OperatorSchedule
from reshard_schedules import ReshardSchedule
from schedules import Schedule

from statestores.errors import InvalidArgumentError, StoreReshardedError
from statestores.object_log.names import Names
from statestores.object_log.requests import Steps
from statestores.object_log.view import View
from statestores.staging import operator_fence as fences
from statestores.staging import operator_steps as steps


class ReshardedOperator(OperatorSchedule, ReshardSchedule):
    """One run of all actors; what is resharded first is the operator's anchor."""

    def other(self, seed: int) -> Schedule:
        """Return who plays with the operator's second store."""
        return SecondStore(seed, self)

    def opened_logs(self) -> Steps[tuple[Names, Names]]:
        """Return where the root says that the two stores are, one after the other."""
        first = yield from self.opened()
        assert isinstance(self.second, ReshardSchedule)
        return first, (yield from self.second.opened())

    def actors(self) -> dict[str, Steps[Any]]:
        """Return the drivers, the reshards of both stores, and who else is at work."""
        assert isinstance(self.second, ReshardSchedule)
        actors: dict[str, Steps[Any]] = {f"d{i}": self.driver(f"d{i}") for i in range(2)}
        for name in ("x", "y"):
            of = self if name == "x" else self.second
            kinds = [f"{name}{i}" for i in range(2)]
            actors |= {each: of.lives("resharder", each) for each in kinds if self.takes_part()}
        if self.random.random() < 0.5:
            actors |= {"c": self.lives("tidier", "c"), "e": self.second.lives("tidier", "e")}
        if self.random.random() < 0.3:
            actors |= {"w": self.lives("writer", "w"), "v": self.second.lives("writer", "v")}
        if self.random.random() < 0.3:
            actors |= {"o": self.lives("owner", "o"), "p": self.second.lives("owner", "p")}
        if self.takes_part():
            actors |= {"r": self.lives("reader", "r"), "q": self.second.lives("reader", "q")}
        return actors

    def sleeps_of(self, name: str, told: Any) -> tuple[float, tuple[int, ...]]:
        """Return it; who reshards sleeps often, for as long as a few micro-batches take."""
        return (0.1, (40, 150, 400)) if name[0] in "xy" else Schedule.sleeps_of(self, name, told)

    def free(self, partition: int, unique: str) -> Steps[None]:
        """Have nobody own *partition*, wherever the stores are."""
        of, other = copy.copy(self), copy.copy(self.second)
        of.names, other.names = yield from self.opened_logs()
        try:
            yield from of.release(partition, f"{unique}r")
            yield from other.release(partition, f"{unique}t")
        except StoreReshardedError:
            self.counts["told of a reshard"] += 1

    def begin(self, last: steps.Last, anchor: Names, second: Names, unique: str) -> Steps[None]:
        """Have both logs say that they are the operator's, and know the fence that *last* has."""
        known = () if last.record is None else last.record.stores
        for log in (anchor, second):
            if log.store not in known:
                yield from steps.join(OPERATOR, log, f"{unique}j")
        yield from super().begin(last, anchor, second, unique)

    def reshard(self, view: View, made: Names) -> Steps[None]:
        """Reshard the anchor."""
        assert isinstance(self.second, ReshardSchedule)
        second = yield from self.second.opened()
        yield from settled(self, self.names, view, {"s": self.names, "t": second})
        yield from super().reshard(view, made)
        self.counts["reshards of the anchor"] += 1


def settled(
    of: ReshardSchedule, anchor: Names, view: View, logs: dict[str, Names]
) -> Steps[steps.Last]:
    """Return the last record, which *view*, of what *of* reshards, and the other store have.

    Raises:
        StoreReshardedError: A driver has to carry it out first: then another try.
    """
    last = yield from steps.find_last(OPERATOR, anchor, ())
    try:
        yield from fences.check_settled(anchor, last, of.names.store, view, logs.__getitem__)
    except InvalidArgumentError as no:
        of.counts["a store lacks a record"] += 1
        raise StoreReshardedError from no
    return last


class SecondStore(ReshardSchedule):
    """The operator's second store."""

    def __init__(self, seed: int, first: ReshardedOperator) -> None:
        """Play with it beside the *first*."""
        super().__init__(seed, first.scope, SECOND, first)
        self.first = first
        self.last: steps.Last | None = None
        self.anchor = first.names

    def reshard(self, view: View, made: Names) -> Steps[None]:
        """Reshard it, with a fence for the operator if it is one's."""
        self.last = None
        anchor = yield from self.first.opened()
        if {OPERATOR.membership, OPERATOR.stream}.intersection(view.batches):
            self.last = yield from settled(self, anchor, view, {"t": self.names})
        self.anchor = anchor
        yield from super().reshard(view, made)
        self.counts["reshards of the second"] += 1

    def fence(self, view: View, made: Names) -> Steps[None]:
        """Keep the operator out."""
        if self.last is not None:
            yield from fences.keep_out(self.anchor, self.last, made.generation)
