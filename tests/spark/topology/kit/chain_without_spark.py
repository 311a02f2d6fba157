"""A topology's chain of steps, its tasks run by this process: everything but Spark itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import statestores as ss
from statestores.processing import RawRecord, Record, Topology
from statestores.processing.record_rows import batch_records, record_batch
from statestores.processing.runtime import head_times
from statestores.processing.serdes import decoded, encoded
from statestores.spark.given_root import GivenRoot
from statestores.spark.local_copy import CopyOptions
from statestores.spark.stateful_functions.output import emitted_rows
from statestores.spark.stateful_functions.plan import CHANNEL_COLUMN
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.spark.topology.chain import Emitted, PartPlan, StepInput
from statestores.spark.topology.planning import ChainSettings, checked_graph, plan_chain
from statestores.spark.topology.record_columns import (
    ARRIVAL_COLUMN,
    ARRIVED_ROWS,
    EMITTED_ROWS,
    for_topic,
)
from statestores_conformance.topology_vectors.driver_of_runs import DriverOfRuns

QUERY = "5f0c1f5e-0000-0000-0000-000000000000"

Given = Sequence[tuple[str, RawRecord]]


class ChainRun:
    """One life of a driver: what it knows beside the files is gone when it is thrown away."""

    def __init__(
        self,
        topology: Topology,
        state: Path | GivenRoot,
        *,
        local: Path | None = None,
        partitions: int = 1,
        backend: str = "memory",
        cache_max_bytes: int = 0,
        least_column_rows: int = 1_000,
        least_run_rows: int = 256,
        before_task: Callable[[StatefulTask], None] = lambda task: None,
    ) -> None:
        """Plan *topology* on *state*; *before_task* is called before each task begins."""
        self.graph = checked_graph(topology)
        self.chain = plan_chain(
            self.graph,
            state if isinstance(state, GivenRoot) else GivenRoot(state),
            ChainSettings(
                partitions=partitions,
                copies=CopyOptions(
                    directory=str(_beside(state) if local is None else local), backend=backend
                ),
                commit_timeout_ms=0,
                cache_max_bytes=cache_max_bytes,
                least_column_rows=least_column_rows,
                least_run_rows=least_run_rows,
            ),
        )
        self._before_task = before_task

    def run(self, number: int, given: Given, query: str = QUERY) -> dict[str, list[RawRecord]]:
        """Run a micro-batch of the records *given*, and return by topic what came out."""

        def compute(part: PartPlan, task: StatefulTask, step: StepInput) -> list[TaskResult]:
            own = [(topic, record) for topic, record in given if topic in step.sources]
            return self._results(part, task, _arrived(own, step))

        return _records(self.chain.run(query, number, compute))

    def _results(self, part: PartPlan, task: StatefulTask, rows: pa.Table) -> list[TaskResult]:
        found = []
        placed = pa.Table.from_batches(
            part.placement.rows(rows.to_batches()),
            ARRIVED_ROWS.append(pa.field("__statestores_place", pa.int32())),
        )
        for place in placed["__statestores_place"].unique().to_pylist():
            own = placed.filter(pa.compute.equal(placed["__statestores_place"], place))
            # Whoever shuffles mixes what several have sent.
            own = own.take(pa.array(range(own.num_rows - 1, -1, -1)))
            self._before_task(task)
            found += [
                TaskResult.from_json(text)
                for batch in task.run(own.to_batches())
                for text in batch.column("result").to_pylist()
            ]
        return found


def _beside(state: Path | GivenRoot) -> Path:
    assert isinstance(state, Path)
    return state.with_name("local")


def _arrived(given: Given, step: StepInput) -> pa.Table:
    batches = [
        each for topic, record in given for each in for_topic(topic, [record_batch([record])])
    ]
    for emitted in step.emitted:
        for file in emitted.files:
            batches += list(emitted_rows(emitted.place, file))
    table = pa.Table.from_batches(batches, EMITTED_ROWS)
    arrival = pa.array(range(table.num_rows), pa.int64())
    return table.append_column(pa.field(ARRIVAL_COLUMN, pa.int64(), nullable=False), arrival)


def _records(emitted: Emitted) -> dict[str, list[RawRecord]]:
    found: dict[str, list[RawRecord]] = {}
    for topic, several in emitted.items():
        found[topic] = [
            record
            for files in several
            for file in files.files
            for batch in emitted_rows(files.place, file)
            for record in batch_records(batch.drop_columns([CHANNEL_COLUMN]))
        ]
    return found


class ChainDriver(DriverOfRuns):
    """Cases of the topology vectors as micro-batches, each by a driver of its own."""

    def __init__(self, topology: Topology, directory: Path, backend: str, **options: Any) -> None:
        """Begin with an empty directory."""
        super().__init__(topology, directory, backend)
        self._options = options
        self._of_tables = {
            topic.name
            for part in self._graph.sub_topologies
            if part.is_global
            for topic in part.source_topics
        }
        self._number = 0
        self._given: list[tuple[str, RawRecord]] = []
        self._came: dict[str, list[RawRecord]] = {}

    def settle(self) -> None:
        """Process what waits: in one micro-batch as long as its records come in order of time."""
        waiting, self._waiting = self._waiting, []
        at_last: tuple[int, int] | None = None
        for topic, record in self._encoded(waiting):
            at = self._order(topic, record)
            # A global table has all of a micro-batch before anything is joined with it.
            if at_last is not None and (at < at_last or topic in self._of_tables):
                self._run()
            at_last = at
            self._given.append((topic, record))
        if self._given:
            self._run()

    def read_all(self, topic: str) -> list[Record[Any, Any]]:
        """Return what has come to *topic* since the last call."""
        self.settle()
        declared = self._graph.topics[topic]
        return [
            Record(decoded(declared.key, raw.key), decoded(declared.value, raw.value), *raw[2:])
            for raw in self._came.pop(topic, [])
        ]

    def _encoded(self, waiting: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, RawRecord]]:
        for name, record in waiting:
            topic = self._graph.topics[name]
            yield (
                name,
                Record(
                    encoded(topic.key, record.key), encoded(topic.value, record.value), *record[2:]
                ),
            )

    def _order(self, topic: str, record: RawRecord) -> tuple[int, int]:
        times: Mapping[str, Any] = {
            name: (number, time)
            for part in self._graph.sub_topologies
            for number, (name, time) in enumerate(head_times(part).items())
        }
        number, time = times[topic]
        return time(record), number

    def _append(self, topic: str, records: Any) -> None:
        raise NotImplementedError

    def _open_store(self, name: str) -> Any:
        logged = ss.open_logged_store(self._directory / "state", name, 0, backend="memory")
        return self._stack.enter_context(logged).store

    def _run(self) -> None:
        given, self._given = self._given, []
        run = ChainRun(
            self._topology, self._directory / "state", backend=self._backend, **self._options
        )
        for topic, records in run.run(self._number, given).items():
            self._came.setdefault(topic, []).extend(records)
        self.dropped_total += run.chain.dropped.total()
        self._number += 1
