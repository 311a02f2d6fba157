"""The command `import-kafka`: the state of a Kafka Streams application into a state root."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    optional_duration,
    parse_backend_options,
)
from statestores.cli.columns import Column
from statestores.cli.importing.taking_over import (
    BackendNameOption,
    DryRunOption,
    KeySerdeOption,
    StoresOption,
    ToOption,
    ValueSerdeOption,
)
from statestores.cli.output import Output, named
from statestores.errors import InvalidArgumentError
from statestores.migration import (
    ImportedPartition,
    ImportPlan,
    KafkaKind,
    KafkaStateDirectory,
    KafkaStore,
    import_kafka_state,
    plan_import,
)
from statestores.migration.kafka.target import WITH_RETENTION, WITH_WINDOW_SIZE
from statestores.serdes import serde_by_name
from statestores.spi.offsets import TopicPartition
from statestores.spi.serde import Serde


def _offsets(offsets: dict[str, int]) -> str:
    return ", ".join(f"{name}: {offset}" for name, offset in offsets.items())


_CLEAN = Column("closed_cleanly", "closed cleanly", lambda is_clean: "yes" if is_clean else "no")
_FOUND = (
    Column("store", "store"),
    Column("partition", "partition"),
    Column("kinds", "kind", " or ".join),
    Column("rows", "rows"),
    Column("changelog", "changelog offset", _offsets),
    Column("position", "position", _offsets),
    _CLEAN,
    Column("missing", "to be given", ", ".join),
)
_DONE = (
    Column("store", "store"),
    Column("partition", "partition"),
    Column("rows", "rows"),
    Column("refused", "expired"),
    _CLEAN,
    Column("is_new", "imported", lambda is_new: "yes" if is_new else "was there"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What the options say of the stores."""

    kind: KafkaKind | None
    retention_ms: int | None
    window_size_ms: int | None
    partitions: int | None
    key: Serde[Any] | None
    value: Serde[Any] | None
    check_keys: bool
    is_for_one: bool

    def plan(self, source: KafkaStateDirectory, store: str) -> ImportPlan:
        """Return what *store* becomes; of several stores, each takes the options it needs."""
        kind = source.kind_of(store, self.kind)
        return plan_import(
            source,
            store,
            kind=kind,
            retention_ms=self.retention_ms if self.is_for_one or kind in WITH_RETENTION else None,
            window_size_ms=(
                self.window_size_ms if self.is_for_one or kind in WITH_WINDOW_SIZE else None
            ),
            partitions=None if source.store(store).is_global else self.partitions,
            key=self.key,
            value=self.value,
            check_keys=self.check_keys,
        )


def import_kafka(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The application's directory: <state.dir>/<application.id>."
        ),
    ],
    *,
    to: ToOption = None,
    store: StoresOption = None,
    kind: Annotated[
        KafkaKind | None, typer.Option("--kind", help="The kind, where the files do not tell it.")
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            metavar="TIME",
            help="For how long windows, sessions and versions are kept: 90m, 7d, or milliseconds.",
        ),
    ] = None,
    window_size: Annotated[
        str | None,
        typer.Option("--window-size", metavar="TIME", help="How long the windows are."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Of the application; by default those that are here."
        ),
    ] = None,
    key_serde: KeySerdeOption = None,
    value_serde: ValueSerdeOption = None,
    application_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The application's id, if the directory was renamed."),
    ] = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave partitions that are there already.")
    ] = False,
    unchecked_keys: Annotated[
        bool,
        typer.Option(
            "--unchecked-keys", help="The application has a partitioner of its own; see the docs."
        ),
    ] = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    backend: BackendNameOption = None,
    backend_option: BackendOption = None,
) -> None:
    """WRITES: import what a stopped Kafka Streams application has left behind.

    The application's directory is only read, and without Java. Offsets and positions are taken
    over. Each partition is imported whole or not at all.

    Example: statestores import-kafka /var/kafka-streams/my-app --to state/ --retention 7d
    """
    output = Output(json=json)
    options = parse_backend_options(backend_option)
    with KafkaStateDirectory(directory, application_id=application_id) as source:
        chosen = [source.store(name) for name in dict.fromkeys(store or source.names)]
        if kind is not None and len(chosen) != 1:
            raise InvalidArgumentError("--kind is of one store: say which, with --store NAME")
        given = _Given(
            kind=kind,
            retention_ms=optional_duration("--retention", retention),
            window_size_ms=optional_duration("--window-size", window_size),
            partitions=partitions,
            key=None if key_serde is None else serde_by_name(key_serde),
            value=None if value_serde is None else serde_by_name(value_serde),
            check_keys=not unchecked_keys,
            is_for_one=len(chosen) == 1,
        )
        if dry_run:
            _say_what_is_there(output, source, chosen, given)
            return
        if to is None:
            raise InvalidArgumentError("--to ROOT is missing; or use --dry-run to only look")
        left = [] if store else [each.name for each in chosen if _means_nothing(source, each)]
        plans = _plans(source, [each for each in chosen if each.name not in left], given)
        with output.progress("importing") as progress:
            done = import_kafka_state(
                source,
                to,
                plans,
                backend=backend,
                options=options,
                skip_existing=skip_existing,
                progress=progress,
            )
    _say_what_was_done(output, plans, done, left)


def _means_nothing(source: KafkaStateDirectory, store: KafkaStore) -> bool:
    """Return whether *store* has neither rows nor a kind: there is nothing to import."""
    return store.kind is None and source.is_empty(store.name)


def _plans(
    source: KafkaStateDirectory, stores: Sequence[KafkaStore], given: _Given
) -> list[ImportPlan]:
    """Return a plan for each of *stores*.

    Raises:
        InvalidArgumentError: Something is missing; the message lists all of it.
    """
    plans: list[ImportPlan] = []
    problems: list[str] = []
    for store in stores:
        try:
            plans.append(given.plan(source, store.name))
        except InvalidArgumentError as error:
            problems.append(str(error))
    if problems:
        raise InvalidArgumentError(
            f"{'; '.join(problems)}. Pass --kind, --retention, --window-size or --partitions, for "
            "one store at a time with --store NAME; --dry-run shows what is there"
        )
    return plans


def _say_what_is_there(
    output: Output, source: KafkaStateDirectory, stores: Sequence[KafkaStore], given: _Given
) -> None:
    rows = []
    with output.progress("counting"):
        for store in stores:
            kind = store.kind if given.kind is None else source.kind_of(store.name, given.kind)
            kinds = sorted(each.value for each in (store.kinds if kind is None else {kind}))
            for partition in store.partitions:
                offsets = source.offsets(store.name, partition)
                rows.append(
                    (
                        store.name,
                        partition,
                        kinds,
                        None if kind is None else _count(source, store.name, partition, kind),
                        _as_text(offsets.changelog),
                        _as_text(offsets.position),
                        offsets.is_closed_cleanly,
                        _missing(kind, given),
                    )
                )
    if output.json:
        output.document(
            {
                "application": source.application_id,
                "path": str(source.path),
                "partitions": named(_FOUND, rows),
                "ignored": [
                    {"path": str(each.path), "reason": each.reason} for each in source.ignored
                ],
            }
        )
        return
    output.rows(_FOUND, rows)
    for each in source.ignored:
        output.remark(f"not read: {each.path}: {each.reason}")


def _say_what_was_done(
    output: Output, plans: Sequence[ImportPlan], done: Sequence[ImportedPartition], left: list[str]
) -> None:
    kinds = {plan.store: plan.kind.value for plan in plans}
    rows = [
        (
            each.store,
            each.partition,
            each.rows,
            each.refused,
            each.is_closed_cleanly,
            each.is_new,
        )
        for each in done
    ]
    if output.json:
        output.document(
            {
                "partitions": [
                    {"kind": kinds[each["store"]], **each} for each in named(_DONE, rows)
                ],
                "left": left,
            }
        )
        return
    output.rows(_DONE, rows)
    for each in done:
        if each.is_closed_cleanly is False:
            output.remark(
                f"{each.store}, partition {each.partition}: not closed cleanly; under exactly-once "
                "it can hold changes that were never committed"
            )
    for name in left:
        output.remark(f"{name}: empty, and of a kind that nobody can tell; not imported")


def _count(source: KafkaStateDirectory, store: str, partition: int, kind: KafkaKind) -> int:
    with closing(source.read(store, partition, kind=kind)) as batches:
        return sum(batch.num_rows for batch in batches)


def _missing(kind: KafkaKind | None, given: _Given) -> list[str]:
    """Return the options without which the store cannot be imported."""
    if kind is None:
        return ["--kind"]
    missing = []
    if kind in WITH_RETENTION and given.retention_ms is None:
        missing.append("--retention")
    if kind in WITH_WINDOW_SIZE and given.window_size_ms is None:
        missing.append("--window-size")
    return missing


def _as_text(offsets: Any) -> dict[str, int]:
    """Return *offsets* with names that JSON can have."""
    return {
        f"{partition.topic}-{partition.partition}": offset
        for partition, offset in sorted(offsets.items(), key=_by_partition)
    }


def _by_partition(item: tuple[TopicPartition, int]) -> TopicPartition:
    return item[0]
