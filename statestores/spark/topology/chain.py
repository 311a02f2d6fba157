"""The steps of a micro-batch: one part of a topology after the other, each committed by itself.

What a step emits to a topic that another part reads is the input of that part's next step, in the
same micro-batch, until nothing is left to be read. A step is a micro-batch of an operator of its
own (decision 36), so it is committed with what it has emitted, and gives the same again when the
micro-batch comes again. Hence which steps there are, and what each is given, follows from what is
committed: wherever a driver dies, the next one finds the steps that are done, and goes on with the
first that is not.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from statestores.errors import ProcessingError
from statestores.processing.topology import Graph, SubTopology
from statestores.spark.stateful_functions.micro_batch import MicroBatch, OperatorBatches
from statestores.spark.stateful_functions.operators import operator_batches, operators_in
from statestores.spark.stateful_functions.output import channel_of
from statestores.spark.stateful_functions.output_place import OutputPlace
from statestores.spark.stateful_functions.plan import StatefulPlan
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.spark.topology.record_columns import RecordPlacement
from statestores.staging.staged_rows import StagedFile

MOST_STEPS = 100
"""Steps of one part in one micro-batch; a topology that needs more feeds itself without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedFiles:
    """What one step has emitted to one topic."""

    place: OutputPlace
    """Where the files are."""

    files: tuple[StagedFile, ...]
    """The files, one or none for each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """What a step is given."""

    sources: tuple[str, ...]
    """The topics of which it is given what the micro-batch has brought."""

    emitted: tuple[EmittedFiles, ...]
    """What earlier steps have emitted to topics that it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """One part of a topology, planned."""

    part: SubTopology
    """The part."""

    plan: StatefulPlan
    """Its operator in the first step; `name_of_step` says what it is called in others."""

    placement: RecordPlacement
    """Where its records go."""

    sources: tuple[str, ...]
    """Those of its topics that are filled from outside."""

    def of_step(self, step: int) -> StatefulPlan:
        """Return the operator of the step with this number, from 0."""
        return replace(self.plan, name=f"{self.plan.name}-{step}")


Compute: TypeAlias = Callable[[PartPlan, StatefulTask, StepInput], Sequence[TaskResult]]
"""Runs the tasks of one step over its input, on whatever machines there are."""

Emitted: TypeAlias = dict[str, list[EmittedFiles]]
"""By topic, what was emitted."""


@dataclass
class Chain:
    """Runs the micro-batches of one topology, one after the other."""

    parts: Sequence[PartPlan]
    """Those whose output others read before these, as far as there is such an order."""

    dropped: Counter[str] = field(default_factory=Counter)
    """How many records went no further in this life of the driver, by step and reason."""

    _operators: dict[tuple[str, int], OperatorBatches] = field(default_factory=dict)
    _has_settled: bool = False

    def run(self, query: str, number: int, compute: Compute) -> Emitted:
        """Commit the micro-batch *number* of *query*, and return what it has emitted.

        Raises:
            ProcessingError: The topology feeds itself without end.
            StateStoreError: As `MicroBatches.run`, and as the tasks raise.
        """
        self._settle()
        total: Emitted = {}
        waiting: Emitted = {}
        steps = dict.fromkeys((each.part.name for each in self.parts), 0)
        is_first = True
        while is_first or any(self._feeds(each, waiting) for each in self.parts):
            for each in self.parts:
                if not is_first and not self._feeds(each, waiting):
                    continue
                step = steps[each.part.name]
                if step == MOST_STEPS:
                    raise ProcessingError(
                        f"the part {each.part.name!r} has had {MOST_STEPS} steps in the "
                        f"micro-batch {number}, and there is still something for it to read: the "
                        "topology feeds itself without end; let what it writes there come to one"
                    )
                steps[each.part.name] += 1
                read = [topic.name for topic in each.part.source_topics]
                given = StepInput(
                    sources=each.sources if step == 0 else (),
                    emitted=tuple(files for name in read for files in waiting.pop(name, ())),
                )
                for topic, files in self._step(each, step, query, number, given, compute).items():
                    total.setdefault(topic, []).append(files)
                    waiting.setdefault(topic, []).append(files)
            is_first = False
        self._forget(steps)
        return total

    def _feeds(self, each: PartPlan, waiting: Emitted) -> bool:
        return any(topic.name in waiting for topic in each.part.source_topics)

    def _step(  # what a step is
        self,
        each: PartPlan,
        step: int,
        query: str,
        number: int,
        given: StepInput,
        compute: Compute,
    ) -> dict[str, EmittedFiles]:
        """Commit one step, and return by topic what it has emitted."""
        operator = self._operator(each, step)
        batch = MicroBatch(
            query=query,
            number=number,
            is_in_sequence=step == 0 and self._is_known(each),
            step=step,
        )

        def results(task: StatefulTask) -> Sequence[TaskResult]:
            if not given.sources and not given.emitted:
                return ()
            try:
                found = compute(each, task, given)
            except BaseException:
                operator.give_up(batch)
                raise
            for result in found:
                self.dropped.update(result.dropped)
            return found

        record = operator.run(batch, results)
        plan = each.of_step(step)
        found: dict[str, list[StagedFile]] = {}
        for file in record.outputs:
            found.setdefault(channel_of(file, plan.channels), []).append(file)
        place = plan.outputs(record.write_id)
        return {
            topic: EmittedFiles(place=place, files=tuple(files)) for topic, files in found.items()
        }

    def _operator(self, each: PartPlan, step: int) -> OperatorBatches:
        place = each.part.name, step
        if place not in self._operators:
            self._operators[place] = operator_batches(each.of_step(step))
        return self._operators[place]

    def _is_known(self, each: PartPlan) -> bool:
        """Whether the part has to have seen the micro-batch before: unless the topology has grown.

        A part that has never had a step, where others have, is new.
        """
        if self._operator(each, 0).is_known():
            return True
        return not any(self._operator(other, 0).is_known() for other in self.parts)

    def _settle(self) -> None:
        """Carry out what a driver that died has committed, in whichever step, before anything else.

        Else a step would change stores before one that is committed already.
        """
        if self._has_settled:
            return
        for each in self.parts:
            prefix = f"{each.plan.name}-"
            for name in operators_in(each.plan.place):
                step = name.removeprefix(prefix)
                if name.startswith(prefix) and step.isdecimal():
                    self._operator(each, int(step)).settle()
        self._has_settled = True

    def _forget(self, steps: Mapping[str, int]) -> None:
        """Remove what steps have emitted that this micro-batch had no need of."""
        for (part, step), operator in self._operators.items():
            if step >= steps[part]:
                operator.forget_outputs()


def feeding_first(graph: Graph) -> list[SubTopology]:
    """Return the parts of *graph*, those of global tables first, and what feeds others before them.

    Parts that feed each other come in the order of the graph.
    """
    waiting = sorted(graph.sub_topologies, key=lambda part: not part.is_global)
    ordered: list[SubTopology] = []
    while waiting:
        ready = (part for part in waiting if not _fed_by(part, waiting))
        chosen = next(ready, waiting[0])
        waiting.remove(chosen)
        ordered.append(chosen)
    return ordered


def _fed_by(part: SubTopology, others: Sequence[SubTopology]) -> bool:
    read = {topic.name for topic in part.source_topics}
    return any(
        read & {topic.name for topic in other.sink_topics} or set(part.global_stores) & _own(other)
        for other in others
        if other is not part
    )


def _own(part: SubTopology) -> set[str]:
    return {store.name for store in part.stores}
