"""How actors are played in an order and with failures that dice decide, one request at a time.

A put may happen and be reported as failed, fail and be reported so, happen much later, or be
refused by a conflict that settles nothing (S3's 409); a deletion may come late; any actor may sleep
for long or die at any step.
"""

import collections
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from scheduled_store import Memory, one_by_one
from scope import Scope

from statestores.errors import CommitInDoubtError
from statestores.object_log.requests import Create, Delete, Read, ReadMany, Replace, Request, Steps
from statestores.storage import Outcome

STEPS = 2_000


class PlayedActors(ABC):
    """Actors over one store: who they are and what is checked is said by those who inherit."""

    def __init__(self, scope: Scope, dice: random.Random, memory: Memory) -> None:
        """Play as much as *scope* says, over *memory*."""
        self.scope, self.random, self.memory = scope, dice, memory
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults = dice.choice((0.0, 0.02, 0.1, 0.25))

    @abstractmethod
    def actors(self) -> dict[str, Steps[Any]]:
        """Return who plays."""

    @abstractmethod
    def check(self) -> object:
        """Compare what is there with what everybody was told."""

    def play(self) -> None:
        """Run all actors until they are done or dead, and check what they were told."""
        late = self.run()
        self.random.shuffle(late)
        for request in late:
            self.memory.execute(request)
        self.check()

    def alone(self, steps: Steps[Any]) -> Any:
        """Run *steps* with nobody else about and nothing failing."""
        single, answer = one_by_one(steps), None
        while True:
            try:
                answer = self.memory.execute(single.send(answer))
            except StopIteration as done:
                return done.value

    def twins(self) -> int:
        """Return how many there are of the next kind."""
        return self.random.randint(0, 2) if self.scope.is_brief else 2

    def takes_part(self) -> bool:
        """Return whether the next actor takes part, who does in each whole schedule."""
        return not self.scope.is_brief or self.random.random() < 0.5

    def run(self) -> list[Request]:
        """Run all actors, and return what is on its way still."""
        running = self.actors()
        answers: dict[str, Any] = dict.fromkeys(running)
        reads: dict[str, tuple[Iterator[str], list[Any]]] = {}
        waiting: dict[str, Request] = {}
        late: list[Request] = []
        asleep: dict[str, int] = {}
        awake, until = list(running), STEPS
        execute, faults = self.memory.execute, self.faults
        dice, choice, bits = self.random.random, self.random.choice, self.random.getrandbits
        for step in range(STEPS):
            if late and dice() < 0.03:
                execute(late.pop(self.random.randrange(len(late))))
                self.counts["late"] += 1
            if not running:
                break
            if step >= until:  # somebody wakes up
                awake = [name for name in running if asleep.get(name, 0) <= step]
                until = min((at for at in asleep.values() if at > step), default=STEPS)
            among = awake or list(running)
            count = len(among)
            width = count.bit_length()
            at = bits(width)
            while at >= count:  # as `choice` does, which takes a tenth of a schedule
                at = bits(width)
            name = among[at]
            told = answers[name]
            request = waiting.pop(name, None)
            if request is None:
                try:
                    request = _next_request(running[name], told, name, reads)
                except (StopIteration, CommitInDoubtError) as end:
                    if isinstance(end, CommitInDoubtError):
                        self.counts["in doubt"] += 1
                    del running[name]
                    until = 0
                    continue
            often, sleeps = self.sleeps_of(name, told)
            if dice() < often:
                waiting[name] = request
                asleep[name] = step + choice(sleeps)
                until = 0
            elif dice() >= faults:
                answers[name] = execute(request)
            elif not self.fail(request, name, answers, late):
                running.pop(name).close()
                until = 0
        for actor in running.values():
            actor.close()
        return late

    def sleeps_of(self, name: str, told: Any) -> tuple[float, tuple[int, ...]]:
        """Return how probably *name*, who was *told* that, falls asleep, and for how many steps."""
        return self.scope.sleeps

    def fail(
        self, request: Request, name: str, answers: dict[str, Any], late: list[Request]
    ) -> bool:
        """Do *request* wrong; return whether the actor lives on."""
        kind = self.random.choice(("lost", "failed", "late", "conflict", "crash"))
        if kind == "crash" and self.random.random() < 0.8:
            kind = "lost"
        self.counts[kind] += 1
        puts = isinstance(request, Create | Replace)
        if kind == "crash":
            if self.random.random() < 0.5:
                self.memory.execute(request)
            elif puts or isinstance(request, Delete):
                late.append(request)
            return False
        if puts:
            if kind == "lost":
                self.memory.execute(request)
            if kind == "late":
                late.append(request)
            answers[name] = Outcome.REFUSED if kind == "conflict" else Outcome.UNKNOWN
        elif kind == "late" and isinstance(request, Delete):
            late.append(request)
            answers[name] = None
        else:
            answers[name] = self.memory.execute(request)
        return True


def _next_request(
    actor: Steps[Any], told: Any, name: str, reads: dict[str, tuple[Iterator[str], list[Any]]]
) -> Request:
    """Return what the actor *name* asks for next, who was *told* that.

    What it reads at the same time it asks for one by one (*reads*): anything may come between.
    """
    if name in reads:
        ahead, found = reads[name]
        found.append(told)
        for each in ahead:
            return Read(each)
        del reads[name]
        told = found
    request = actor.send(told)
    while isinstance(request, ReadMany):
        ahead = iter(request.names)
        for each in ahead:
            reads[name] = ahead, []
            return Read(each)
        request = actor.send([])
    return request
