"""The command `lag`: how far engines are behind their changelogs."""

from typing import Annotated, Any, TypeAlias

import typer

from statestores.cli.arguments import (
    BackendOption,
    CsvOption,
    JsonOption,
    LocalOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.columns import Column, time_column
from statestores.cli.operating.partition_lag import PartitionLag, lag_of
from statestores.cli.operating.remote_lag import remote_lags
from statestores.cli.operating.root_partitions import locate_root, root_partitions
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError

_BEHIND = 1

_Row: TypeAlias = tuple[Any, ...]

COLUMNS = (
    Column("store", "store"),
    Column("partition", "partition"),
    Column("condition", "condition"),
    Column("next_offset", "next offset"),
    Column("end_offset", "end offset"),
    Column("lag", "lag"),
    Column("since_snapshot", "since snapshot"),
    time_column("last_write_ms", "last write"),
    Column("owner", "opened by", if_any=True),
    Column("detail", "detail", if_any=True),
)
"""What is known of the partitions of a directory."""

REMOTE_COLUMNS = (
    Column("store", "store"),
    Column("partition", "partition"),
    Column("instance", "instance"),
    Column("role", "role"),
    Column("next_offset", "next offset"),
    Column("end_offset", "end offset"),
    Column("lag", "lag"),
)
"""What running instances say."""


def lag(
    root: Annotated[
        str | None,
        typer.Argument(metavar="[ROOT]", help="A state root, or one of its stores."),
    ] = None,
    *,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Ask running instances: what serve prints."),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option("--token-file", metavar="FILE", help="The token that the URL asks for."),
    ] = None,
    highest: Annotated[
        int | None,
        typer.Option("--max", min=0, metavar="N", help="Exit code 1 if a lag is above, or unknown"),
    ] = None,
    engine: Annotated[
        bool,
        typer.Option(
            "--engine/--no-engine",
            help="Open engines that nobody has open, which takes their locks for a moment.",
        ),
    ] = True,
    store: StoreOption = None,
    local: LocalOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Say how many changes each engine is behind its changelog, and a restore would have to apply.

    An engine that somebody has open is not asked: only its owner knows. With --url the owners
    are asked, through their HTTP face.

    Example: statestores lag state/ --max 1000
    """
    output = Output(json=json, csv=csv)
    options = parse_backend_options(backend_option)
    if (root is None) == (url is None):
        raise InvalidArgumentError("give a state root, or --url of a running instance: one of them")
    if url is None and token_file is not None:
        raise InvalidArgumentError("--token-file is for --url; leave one out")
    if url is not None and (local is not None or backend_option):
        raise InvalidArgumentError("--url opens no engine; leave --local and --backend-option out")
    if url is not None:
        told = list(remote_lags(url, token_file, store))
        output.rows(REMOTE_COLUMNS, told)
        lags = [row[-1] for row in told]
    else:
        assert root is not None  # noqa: S101  # one of the two is given
        location = locate_root(root, store, local)
        found = [
            lag_of(each, options, open_engine=engine) for each in root_partitions(location, store)
        ]
        output.rows(COLUMNS, map(_row, found))
        lags = [each.lag for each in found]
    if not lags:
        output.remark("no partitions")
    if highest is not None and any(each is None or each > highest for each in lags):
        raise typer.Exit(_BEHIND)


def _row(found: PartitionLag) -> _Row:
    """Return the cells of one partition."""
    partition = found.partition
    return (
        None if partition.specification is None else partition.specification.name,
        partition.number,
        found.condition.value,
        found.next_offset,
        found.end_offset,
        found.lag,
        found.since_snapshot,
        found.last_write_ms,
        owner_words(found),
        found.detail,
    )


def owner_words(found: PartitionLag) -> str | None:
    """Return who has the engine open now, or may have; ``None`` when nobody has."""
    owner = found.owner
    if owner is None or owner.holds is False:
        return None
    words = f"{owner.pid} on {owner.host}"
    return words if owner.holds else f"perhaps {words}"
