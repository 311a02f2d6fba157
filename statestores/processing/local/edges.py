"""The sources and sinks of a run: whether they fit the topology, and their tasks."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.files.local_path import local_path
from statestores.processing.local.edge_task import EdgeTask, store_name_of
from statestores.processing.local.identity import StateIdentity
from statestores.processing.local.outputs import TopicOutputs
from statestores.processing.local.partition_log import task_mark
from statestores.processing.local.sinks.sink import LocalSink
from statestores.processing.local.sinks.sink_task import SinkOutputs, SinkTask
from statestores.processing.local.sources.source import LocalSource
from statestores.processing.local.sources.source_task import SourceTask
from statestores.processing.local.task_plan import PlannedTask, TaskSettings
from statestores.processing.local.topics import AnyTopic
from statestores.processing.topology import Graph
from statestores.serdes import json, utf8
from statestores.spi import KeyValue, TopicPartition
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
        for what, given in (("source", sources), ("sink", sinks)):
            if not isinstance(given, Mapping):
                raise InvalidTypeError(
                    f"{what}s must be a mapping from a topic's name to its {what}, got {given!r}"
                )
        internal = {topic.name for topic in graph.internal_topics}
        written = {node.writes.name for node in graph.nodes if node.writes is not None}
        written |= {topic.name for topic in graph.errors.dead_letter_topics}
        read = {node.reads.name for node in graph.nodes if node.reads is not None}
        for name, source in sources.items():
            if not isinstance(source, LocalSource):
                raise InvalidTypeError(
                    f"the source of {name!r} must be a JsonLines, ParquetFiles or Items, such as "
                    f"Items(iterable), got {source!r}"
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
                    f"the sink of {name!r} must be a ParquetSink, or an AtLeastOnce(function), got "
                    f"{sink!r}"
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
        sources = map(source_part, self._sources)
        return (*sources, *map(sink_part, self._sinks))

    @property
    def sources(self) -> tuple[str, ...]:
        """The topics that sources fill."""
        return tuple(self._sources)

    def homes(self, state: str | PathLike[str]) -> dict[str, Path]:
        """Return where the topics lie that sources fill, for a state root at *state*."""
        directory = local_path(state) / SOURCES_DIRECTORY
        return {name: directory / name for name in self._sources}

    def stores(self) -> list[KeyValue[str, Any]]:
        """Return the store of each of their tasks."""
        sources = [_store(name, "source") for name in self._sources]
        return [*sources, *(_store(name, "sink") for name in self._sinks)]

    def plan(
        self,
        root: StateRoot,
        identity: StateIdentity,
        topics: Mapping[str, AnyTopic],
        settings: TaskSettings,
    ) -> list[PlannedTask]:
        """Return their tasks; the root has their stores.

        A source of a global table reads all there is when it is opened.
        """
        letters = {
            topic.name: topics[topic.name] for topic in self._graph.errors.dead_letter_topics
        }
        whole = {
            topic.name
            for part in self._graph.sub_topologies
            if part.is_global
            for topic in part.source_topics
        }
        policy = self._graph.errors

        def open_source(name: str, source: LocalSource, stack: ExitStack) -> EdgeTask:
            mark, task_id = _ids(identity, source_part(name))
            outputs = TopicOutputs({name: topics[name], **letters}, mark, 0)
            task = _opened(root, task_id, _store(name, "source"), outputs, settings, stack)
            wall_ms = settings.clock_ms()
            fed = stack.enter_context(
                SourceTask(source, topics[name], task, outputs, policy.decode, wall_ms=wall_ms)
            )
            while name in whole and fed.advance(wall_ms, _STEP):
                fed.commit()  # others find the table as it is now (PRC-37)
            return fed

        def open_sink(name: str, sink: LocalSink, stack: ExitStack) -> EdgeTask:
            mark, task_id = _ids(identity, sink_part(name))
            both = SinkOutputs(
                sink.writer(topics[name].topic, identity.state), TopicOutputs(letters, mark, 0)
            )
            task = _opened(root, task_id, _store(name, "sink"), both, settings, stack)
            return stack.enter_context(SinkTask(topics[name], task, both, policy.encode))

        def planned(part: str, opening: Callable[[ExitStack], EdgeTask]) -> PlannedTask:
            return PlannedTask(
                name=str(_ids(identity, part)[1]),
                part=part,
                partition=0,
                stores=(),
                open=lambda stack, _: opening(stack),
            )

        return [
            *(
                planned(source_part(name), partial(open_source, name, source))
                for name, source in self._sources.items()
            ),
            *(
                planned(sink_part(name), partial(open_sink, name, sink))
                for name, sink in self._sinks.items()
            ),
        ]


def source_part(topic: str) -> str:
    """Return the name of the task that fills *topic*."""
    return f"@source/{topic}"


def sink_part(topic: str) -> str:
    """Return the name of the task that empties *topic*."""
    return f"@sink/{topic}"


def _ids(identity: StateIdentity, name: str) -> tuple[TopicPartition, TaskId]:
    """Return the mark and the name of the task of an edge."""
    group = identity.groups[name]
    return task_mark(identity.state, group, 0), TaskId(group, 0)


def _store(topic: str, edge: str) -> KeyValue[str, Any]:
    return KeyValue(store_name_of(topic, edge), key=utf8, value=json)


def _opened(
    root: StateRoot,
    task_id: TaskId,
    store: KeyValue[str, Any],
    outputs: TopicOutputs | SinkOutputs,
    settings: TaskSettings,
    stack: ExitStack,
) -> Task:
    task = open_task(
        root,
        task_id,
        [store.name],
        backend=settings.backend,
        options=settings.options,
        durability=settings.durability,
        changelog_options=settings.changelog_options,
        outputs=outputs,
    )
    stack.callback(task.close)
    return task
