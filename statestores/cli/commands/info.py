"""The command `info`: what lies at a path, and how it is."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    LocalOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.columns import Column
from statestores.cli.facts import (
    Facts,
    changelog_facts,
    partition_facts,
    size_of,
    snapshot_facts,
)
from statestores.cli.locations import choose_stores, locate_store
from statestores.cli.object_roots import PARTITION_COLUMNS, object_partitions
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError
from statestores.reading.locations import (
    ChangelogDirectory,
    Location,
    Partition,
    Root,
    SnapshotDirectory,
)
from statestores.root_document import Placement
from statestores.spi.kinds import KINDS
from statestores.storage import is_storage_url
from statestores.text.sizes import format_bytes
from statestores.text.times import format_duration, format_time

_UNREADABLE = "cannot be read"

_UNIMPORTED = "an import has begun to bring it, and has not; repeat the import with --skip-existing"

_DURATIONS = {
    field.name: field.title for kind in KINDS.values() for field in kind.fields if field.is_duration
}
"""What a specification says in milliseconds."""


def info(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A state root, one of its stores, a partition, a changelog or a snapshot.",
        ),
    ],
    *,
    engine: Annotated[
        bool | None,
        typer.Option(
            "--engine/--no-engine",
            help="Open the engines for committed offsets, stream time and lag: that takes the "
            "writer's lock for a moment. By default only where there is no changelog.",
        ),
    ] = None,
    store: StoreOption = None,
    local: LocalOption = None,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Say what lies at a path: specification, backend, offsets, sizes, changelog and snapshots.

    Of the URL of a state root in an object store: the partitions and their changelogs.

    Example: statestores info state/planes/0 --engine
    """
    output = Output(json=json)
    if is_storage_url(path):
        if local is not None:
            raise InvalidArgumentError(
                "the engines of an object store are not looked into; leave --local out"
            )
        partitions = [each.facts() for each in object_partitions(path, store, every_store=True)]
        names = [column.name for column in PARTITION_COLUMNS]
        rows = [tuple(facts[name] for name in names) for facts in partitions]
        if json:
            output.document({"what": "state root", "path": path, "partitions": partitions})
        else:
            output.rows(PARTITION_COLUMNS, rows)
        return
    options = parse_backend_options(backend_option)
    location = locate_store(path, store, local)
    document = _document(location, store, options, engine=engine)
    if json:
        output.document(document)
        return
    match location:
        case Root():
            _show_root(output, document)
        case Partition():
            _show_partition(output, document)
        case ChangelogDirectory():
            output.heading(f"changelog {document['path']}")
            output.facts(_changelog_lines(document))
        case SnapshotDirectory():
            output.heading(f"snapshot {document['path']}")
            output.facts(_snapshot_lines(document))


def _document(
    location: Location, store: str | None, options: dict[str, object], *, engine: bool | None
) -> Facts:
    """Return everything that is said about *location*."""

    def about(partition: Partition) -> Facts:
        return partition_facts(partition, options, open_engine=engine)

    match location:
        case Root():
            names = choose_stores(location, store)
            stores = [
                {
                    "store": location.root.store(name).specification.describe(),
                    "placement": location.root.store(name).placement,
                    "partitions": [about(partition) for partition in location.partitions(name)],
                }
                for name in names
            ]
            return {
                "what": "state root",
                "path": str(location.root.path),
                "bytes": size_of(location.root.path),
                "stores": stores,
            }
        case Partition():
            return {"what": "partition", **about(location)}
        case ChangelogDirectory():
            return {"what": "changelog", **changelog_facts(location.path)}
        case SnapshotDirectory():
            return {"what": "snapshot", **snapshot_facts(location.path)}


def _show_root(output: Output, document: Facts) -> None:
    output.heading(f"state root {document['path']}")
    stores = document["stores"]
    output.facts([("size", format_bytes(document["bytes"])), ("stores", str(len(stores)))])
    columns = (
        Column("partition", "partition"),
        Column("backend", "backend"),
        Column("engine", "engine", format_bytes),
        Column("changelog", "changelog"),
        Column("log_bytes", "changelog size", format_bytes),
        Column("snapshot", "newest snapshot"),
        Column("lag", "lag"),
        Column("remarks", "remarks"),
    )
    for store in stores:
        output.heading(f"store {store['store']['name']}")
        lines = [*_store_lines(store["store"])]
        if store["placement"] == Placement.TASK:
            lines.append(("keys placed by", "the task that writes them, and by no partitioner"))
        output.facts(lines)
        output.rows(columns, [_partition_cells(facts) for facts in store["partitions"]])


def _partition_cells(facts: Facts) -> tuple[Any, ...]:
    log, snapshots, engine = facts["changelog"], facts["snapshots"], facts["engine"]
    newest = snapshots[-1] if snapshots else None
    remarks = []
    if log is not None and "error" in log:
        remarks.append(log["error"])
    if newest is not None and "error" in newest:
        remarks.append(newest["error"])
    if engine is not None and "error" in engine:
        remarks.append(engine["error"])
    if facts["unfinished_write"]:
        remarks.append(_unfinished(facts))
    if facts["is_unimported"]:
        remarks.append(_UNIMPORTED)
    return (
        facts["partition"],
        facts["backend"],
        facts["engine_bytes"] or None,
        _range(log),
        None if log is None else log["bytes"],
        None if newest is None else _snapshot_words(newest),
        facts["lag"],
        "; ".join(remarks) or None,
    )


def _show_partition(output: Output, facts: Facts) -> None:
    output.heading(f"partition {facts['path']}")
    lines: list[tuple[str, str]] = []
    if facts["store"] is not None:
        lines.append(("store", str(facts["store"]["name"])))
        lines += _store_lines(facts["store"])
    if facts["partition"] is not None:
        lines.append(("partition", str(facts["partition"])))
    lines.append(("backend", facts["backend"] or "none yet"))
    lines.append(("engine size", format_bytes(facts["engine_bytes"])))
    if facts["unfinished_write"]:
        lines.append(("staged write", _unfinished(facts)))
    if facts["is_unimported"]:
        lines.append(("import", _UNIMPORTED))
    output.facts(lines)
    engine = facts["engine"]
    if engine is not None:
        output.heading("engine")
        output.facts(_engine_lines(engine, facts["lag"]))
    if facts["changelog"] is not None:
        output.heading("changelog")
        output.facts(_changelog_lines(facts["changelog"]))
    if facts["snapshots"]:
        output.heading("snapshots")
        output.facts(
            (str(each.get("offset", each["path"])), _snapshot_words(each))
            for each in facts["snapshots"]
        )
    if engine is None and facts["backend"] is not None:
        output.remark("--engine shows committed offsets, stream time and lag; it takes the lock")


def _store_lines(store: Facts) -> Iterator[tuple[str, str]]:
    yield "kind", str(store["kind"])
    yield "keys", str(store["key"])
    yield "values", str(store["value"])
    yield "partitioner", str(store["partitioner"])
    for field, title in _DURATIONS.items():
        if store.get(field):
            yield title, format_duration(store[field])
    if store.get("ttl_ms"):
        yield "time to live by", {"event": "stream time", "wall": "the clock"}[store["ttl_clock"]]
    if store.get("retain_duplicates"):
        yield "duplicates", "retained"


def _engine_lines(engine: Facts, lag: int | None) -> Iterator[tuple[str, str]]:
    if "error" in engine:
        yield _UNREADABLE, engine["error"]
        return
    yield "committed offsets", _offsets(engine["committed_offsets"])
    yield "position", _offsets(engine["position"])
    if "stream_time_ms" in engine:
        yield "stream time", _time(engine["stream_time_ms"])
    if "approximate_entries" in engine:
        yield "entries", f"about {engine['approximate_entries']:,}"
    if lag is not None:
        behind = "none" if lag == 0 else f"{lag:,} behind its changelog"
        yield "lag", behind if lag >= 0 else f"{-lag:,} AHEAD of its changelog; run verify"


def _changelog_lines(log: Facts) -> Iterator[tuple[str, str]]:
    yield "size", format_bytes(log["bytes"])
    if "error" in log:
        yield _unusable(log), log["error"]
        return
    yield "kind", log["kind"]
    yield "offsets", str(_range(log))
    yield "position", _offsets(log["position"])
    yield "segments", str(log["segments"])
    if log["compacted_before"] is not None:
        yield "compacted", f"before offset {log['compacted_before']}"
    if log["torn_tail_bytes"]:
        yield "torn tail", f"{log['torn_tail_bytes']} bytes; an append that runs, or that died"


def _snapshot_lines(facts: Facts) -> Iterator[tuple[str, str]]:
    if "error" in facts:
        yield _UNREADABLE, facts["error"]
        return
    yield "store", str(facts["store"]["name"])
    yield from _store_lines(facts["store"])
    yield "partition", str(facts["partition"])
    yield "offset", str(facts["offset"])
    yield "rows", f"{facts['rows']:,}"
    yield "size", format_bytes(facts["bytes"])
    if facts["native"] is not None:
        yield "native", _native_words(facts["native"])
    yield "position", _offsets(facts["position"])
    if facts["stream_time_ms"] is not None:
        yield "stream time", _time(facts["stream_time_ms"])
    yield "written", f"{format_time(facts['created_at_ms'])} by {facts['library_version']}"


def _snapshot_words(facts: Facts) -> str:
    if "error" in facts:
        return _UNREADABLE
    written = format_time(facts["created_at_ms"])
    words = (
        f"at {facts['offset']}: {facts['rows']:,} rows, {format_bytes(facts['bytes'])}, {written}"
    )
    native = facts["native"]
    return words if native is None else f"{words}; native: {_native_words(native)}"


def _native_words(facts: Facts) -> str:
    if "error" in facts:
        return _UNREADABLE
    return f"{facts['driver']}, files: {facts['files']}, {format_bytes(facts['bytes'])}"


def _range(log: Facts | None) -> str | None:
    if log is None:
        return None
    if "error" in log:
        return _unusable(log)
    first, end = log["first_offset"], log["end_offset"]
    return f"none yet, the next is {end}" if first == end else f"{first} to {end - 1}"


def _unusable(log: Facts) -> str:
    return "gone" if log.get("gone") else _UNREADABLE


def _offsets(offsets: list[Facts]) -> str:
    return (
        ", ".join(f"{each['topic']}-{each['partition']}: {each['offset']}" for each in offsets)
        or "none"
    )


def _unfinished(facts: Facts) -> str:
    return f"{facts['unfinished_write']} is committed; the next writer finishes it"


def _time(time_ms: int | None) -> str:
    return "none yet" if time_ms is None else format_time(time_ms)
