"""The sources and sinks of a run: whether they fit the topology, and their tasks."""

from collections.abc import Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.files.local_path import local_path
from statestores.processing.local.edge_task import EdgeTask, store_name_of
from statestores.processing.local.identity import StateIdentity
from statestores.processing.local.outputs import TopicOutputs
from statestores.processing.local.sinks.sink import LocalSink
from statestores.processing.local.sinks.sink_task import SinkOutputs, SinkTask
from statestores.processing.local.sources.source import LocalSource
from statestores.processing.local.sources.source_task import SourceTask
from statestores.processing.local.topics import AnyTopic
from statestores.processing.topology import Graph
from statestores.serdes import json, utf8
from statestores.spi import Durability, KeyValue, TopicPartition
from statestores.state_root import StateRoot
from statestores.tasks import Task, TaskId, open_task

SOURCES_DIRECTORY = "@sources"
"""Where the topics that sources fill lie, in a state root: who removes the state begins anew."""

_STEP = 10_000


class Edges:
    """What a run reads and writes besides topics."""

    def __init__(
        self, graph: Graph, sources: Mapping[str, LocalSource], sinks: Mapping[str, LocalSink]
    ) -> None:
        """Check that each is of a topic of *graph*; nothing is opened.

        Raises:
            InvalidTypeError: One is no source, or no sink.
            InvalidArgumentError: The topology does not read, or not write, such a topic.
        """
        internal = {topic.name for topic in graph.internal_topics}
        written = {node.writes.name for node in graph.nodes if node.writes is not None}
        written |= {topic.name for topic in graph.errors.dead_letter_topics}
        read = {node.reads.name for node in graph.nodes if node.reads is not None}
        for name, source in sources.items():
            if not isinstance(source, LocalSource):
                raise InvalidTypeError(
                    f"the source of {name!r} must be a JsonLines, ParquetFiles or Items, got "
                    f"{source!r}"
                )
            fit = read - written - internal
            if name not in fit:
                raise InvalidArgumentError(
                    f"the topology {graph.name!r} reads no topic {name!r} that a source could "
                    f"fill; there are: {', '.join(sorted(fit)) or 'none'}"
                )
        for name, sink in sinks.items():
            if not isinstance(sink, LocalSink):
                raise InvalidTypeError(
                    f"the sink of {name!r} must be a ParquetSink or an AtLeastOnce, got {sink!r}"
                )
            if name not in written - internal:
                raise InvalidArgumentError(
                    f"the topology {graph.name!r} writes no topic {name!r} that a sink could "
                    f"empty; there are: {', '.join(sorted(written - internal)) or 'none'}"
                )
        self._graph = graph
        self._sources, self._sinks = dict(sources), dict(sinks)

    @property
    def names(self) -> tuple[str, ...]:
        """Names for their tasks, which are none of the topology's parts."""
        sources = [f"@source/{name}" for name in self._sources]
        return (*sources, *(f"@sink/{name}" for name in self._sinks))

    def homes(self, state: str | PathLike[str]) -> dict[str, Path]:
        """Return where the topics lie that sources fill, for a state root at *state*."""
        directory = local_path(state) / SOURCES_DIRECTORY
        return {name: directory / name for name in self._sources}

    def open(
        self,
        stack: ExitStack,
        root: StateRoot,
        identity: StateIdentity,
        topics: Mapping[str, AnyTopic],
        *,
        wall_ms: int,
        **settings: Any,
    ) -> list[EdgeTask]:
        """Open the tasks, for *stack* to close. Those of global tables read all there is.

        Raises:
            StateStoreError: A store, a file or a directory cannot be opened.
        """
        letters = {
            topic.name: topics[topic.name] for topic in self._graph.errors.dead_letter_topics
        }
        tasks: list[EdgeTask] = []
        whole = {
            topic.name
            for part in self._graph.sub_topologies
            if part.is_global
            for topic in part.source_topics
        }
        for name, source in self._sources.items():
            mark, task_id = _ids(identity, f"@source/{name}")
            outputs = TopicOutputs({name: topics[name], **letters}, mark, 0)
            task = _opened(root, task_id, name, "source", outputs, **settings)
            stack.callback(task.close)
            fed = stack.enter_context(
                SourceTask(
                    source,
                    topics[name],
                    task,
                    outputs,
                    self._graph.errors.decode,
                    wall_ms=wall_ms,
                )
            )
            for log in topics[name].logs:
                log.is_fed = _feeding(fed)
            while name in whole and fed.advance(wall_ms, _STEP):
                fed.commit()  # others find the table as it is now (PRC-37)
            tasks.append(fed)
        for name, sink in self._sinks.items():
            mark, task_id = _ids(identity, f"@sink/{name}")
            both = SinkOutputs(
                sink.writer(topics[name].topic, identity.state), TopicOutputs(letters, mark, 0)
            )
            task = _opened(root, task_id, name, "sink", both, **settings)
            stack.callback(task.close)
            tasks.append(
                stack.enter_context(SinkTask(topics[name], task, both, self._graph.errors.encode))
            )
        return tasks


def _feeding(task: SourceTask) -> Any:
    return lambda: task.is_feeding


def _ids(identity: StateIdentity, name: str) -> tuple[TopicPartition, TaskId]:
    """Return the mark and the name of the task of an edge."""
    group = identity.groups[name]
    return TopicPartition(f"@task/{identity.state}/{group}", 0), TaskId(group, 0)


def _opened(
    root: StateRoot,
    task_id: TaskId,
    topic: str,
    edge: str,
    outputs: TopicOutputs | SinkOutputs,
    *,
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
) -> Task:
    store = KeyValue(store_name_of(topic, edge), key=utf8, value=json)
    root.add_store(store, partitions=1)
    return open_task(
        root,
        task_id,
        [store.name],
        backend=backend,
        options=options,
        durability=durability,
        outputs=outputs,
    )
