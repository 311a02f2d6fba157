"""What the commands that take another library's state over share: options, and what they print."""

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import typer

from statestores.cli.arguments import optional_duration
from statestores.cli.columns import Column
from statestores.cli.output import Output, named
from statestores.errors import InvalidArgumentError
from statestores.migration.peers.importing import PeerPlan, import_peer_state, plan_peer_import
from statestores.migration.peers.source import PeerState, PeerStore
from statestores.serdes import serde_by_name
from statestores.spi.kinds import Kind
from statestores.spi.serde import Serde

ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="ROOT", help="The state root; it is made if need be."),
]
StoresOption = Annotated[
    list[str] | None,
    typer.Option("--store", metavar="NAME", help="Only this store. Repeatable."),
]
PartitionsOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="How many partitions the store has here.")
]
KeySerdeOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="What reads the keys; by default bytes.")
]
ValueSerdeOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="What reads the values; by default bytes.")
]
SkipOption = Annotated[bool, typer.Option("--skip-existing", help="Leave what is there already.")]
KindOption = Annotated[
    str | None,
    typer.Option("--kind", metavar="KIND", help="Its kind, if that is not certain."),
]
RetentionOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="For how long windows, sessions and versions are kept."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only say what is there; nothing is written.")
]
BackendNameOption = Annotated[
    str | None, typer.Option("--backend", metavar="NAME", help="The backend; by default rocksdb.")
]

_FOUND = (
    Column("store", "store"),
    Column("partition", "partition"),
    Column("kinds", "kind", " or ".join),
    Column("rows", "rows"),
    Column(
        "changelog",
        "changelog offset",
        lambda offsets: ", ".join(f"{name}: {offset}" for name, offset in offsets.items()),
    ),
    Column("missing", "to be given", ", ".join),
)
_DONE = (
    Column("store", "store"),
    Column("partition", "partition"),
    Column("rows", "rows"),
    Column("refused", "expired"),
    Column("is_new", "imported", lambda is_new: "yes" if is_new else "was there"),
)


def serde_or_none(name: str | None) -> Serde[Any] | None:
    """Return the serde *name*; ``None`` for bytes."""
    return None if name is None or name == "bytes" else serde_by_name(name)


def take_over(
    output: Output,
    source: PeerState,
    to: str | None,
    *,
    stores: Sequence[str] | None,
    kind: str | None = None,
    retention: str | None = None,
    partitions: int | None = None,
    key_serde: str | None = None,
    value_serde: str | None = None,
    check_keys: bool = True,
    skip_existing: bool = False,
    dry_run: bool = False,
    backend: str | None = None,
    options: dict[str, object] | None = None,
) -> None:
    """Import the *stores* of *source*, or all, and print what was done, or what is there.

    Raises:
        InvalidArgumentError: Something is missing; the message lists all of it.
    """
    retention_ms = optional_duration("--retention", retention)
    chosen = [source.store(name) for name in dict.fromkeys(stores)] if stores else source.stores()
    if dry_run:
        _say_what_is_there(output, source, chosen, kind, has_retention=retention is not None)
        return
    if to is None:
        raise InvalidArgumentError("--to ROOT is missing; or use --dry-run to only look")
    plans: list[PeerPlan] = []
    problems: list[str] = []
    for store in chosen:
        kept = _kind(store, kind)
        is_needed = kept is not None and kept.retention is not None
        try:
            plans.append(
                plan_peer_import(
                    source,
                    store.name,
                    kind=kind if len(chosen) == 1 else kept,
                    retention_ms=retention_ms if is_needed or len(chosen) == 1 else None,
                    partitions=partitions,
                    key=serde_or_none(key_serde),
                    value=serde_or_none(value_serde),
                    check_keys=check_keys,
                )
            )
        except InvalidArgumentError as error:
            problems.append(str(error))
    if problems:
        raise InvalidArgumentError(
            f"{'; '.join(problems)}. Pass --kind, --retention or --partitions, for one store at a "
            "time with --store NAME; --dry-run shows what is there"
        )
    with output.progress("importing") as progress:
        done = import_peer_state(
            source,
            to,
            plans,
            backend=backend,
            options=options,
            skip_existing=skip_existing,
            progress=progress,
        )
    rows = [(each.store, each.partition, each.rows, each.refused, each.is_new) for each in done]
    if output.json:
        output.document({"partitions": named(_DONE, rows)})
    else:
        output.rows(_DONE, rows)


def _kind(store: PeerStore, kind: str | None) -> Kind | None:
    """Return the kind of *store*: what it is for certain, or *kind* if it can be that."""
    return store.kind or next((each for each in store.kinds if each.name == kind), None)


def _say_what_is_there(
    output: Output,
    source: PeerState,
    stores: Sequence[PeerStore],
    kind: str | None,
    *,
    has_retention: bool,
) -> None:
    rows = []
    with output.progress("counting"):
        for store in stores:
            if store.problem is not None:
                output.remark(store.problem)
                continue
            known = _kind(store, kind)
            missing = []
            if known is None:
                missing.append("--kind")
            possible = store.kinds if known is None else (known,)
            if not has_retention and any(each.retention for each in possible):
                missing.append("--retention")
            for partition in store.partitions or (None,):
                offsets = {} if partition is None else source.offsets(store.name, partition)
                with closing(source.read(store.name, partition, known or store.kinds[0])) as found:
                    count = sum(batch.num_rows for batch in found)
                rows.append(
                    (
                        store.name,
                        partition,
                        [each.name for each in possible],
                        count,
                        {f"{each.topic}-{each.partition}": at for each, at in offsets.items()},
                        missing,
                    )
                )
    if output.json:
        output.document({"path": str(source.path), "partitions": named(_FOUND, rows)})
    else:
        output.rows(_FOUND, rows)
