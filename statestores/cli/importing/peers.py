"""The commands `import-quix`, `import-faust` and `import-bytewax`."""

from pathlib import Path
from typing import Annotated

import typer

from statestores.cli.arguments import BackendOption, JsonOption, parse_backend_options
from statestores.cli.importing.taking_over import (
    BackendNameOption,
    DryRunOption,
    KeySerdeOption,
    KindOption,
    PartitionsOption,
    RetentionOption,
    SkipOption,
    StoresOption,
    ToOption,
    ValueSerdeOption,
    take_over,
)
from statestores.cli.output import Output
from statestores.migration import BytewaxRecoveryStore, FaustTables, QuixStateDirectory


def import_quix(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The group's directory: <state_dir>/<consumer_group>."),
    ],
    *,
    to: ToOption = None,
    store: StoresOption = None,
    kind: KindOption = None,
    retention: RetentionOption = None,
    partitions: PartitionsOption = None,
    key_serde: KeySerdeOption = None,
    value_serde: ValueSerdeOption = None,
    skip_existing: SkipOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    backend: BackendNameOption = None,
    backend_option: BackendOption = None,
) -> None:
    """WRITES: import the state of a stopped Quix Streams application, which is only read.

    Each partition is imported whole or not at all, with its changelog offset.

    Example: statestores import-quix state/my-group --to roots/ --value-serde json --retention 7d
    """
    options = parse_backend_options(backend_option)
    with QuixStateDirectory(directory) as source:
        take_over(
            Output(json=json),
            source,
            to,
            stores=store,
            kind=kind,
            retention=retention,
            partitions=partitions,
            key_serde=key_serde,
            value_serde=value_serde,
            skip_existing=skip_existing,
            dry_run=dry_run,
            backend=backend,
            options=options,
        )


def import_faust(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The application's data directory, <app-id>-data."),
    ],
    *,
    to: ToOption = None,
    store: StoresOption = None,
    application_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The application's id, if the directory does not say it."),
    ] = None,
    kind: KindOption = None,
    retention: RetentionOption = None,
    partitions: PartitionsOption = None,
    key_serde: KeySerdeOption = None,
    value_serde: ValueSerdeOption = None,
    unchecked_keys: Annotated[
        bool,
        typer.Option("--unchecked-keys", help="The application has a partitioner of its own."),
    ] = False,
    skip_existing: SkipOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    backend: BackendNameOption = None,
    backend_option: BackendOption = None,
) -> None:
    """WRITES: import the RocksDB tables of a stopped Faust application, which are only read.

    Each partition is imported whole or not at all, with its changelog offset.

    Example: statestores import-faust my-app-data --to roots/ --key-serde json --value-serde json
    """
    options = parse_backend_options(backend_option)
    with FaustTables(directory, application_id=application_id) as source:
        take_over(
            Output(json=json),
            source,
            to,
            stores=store,
            kind=kind,
            retention=retention,
            partitions=partitions,
            key_serde=key_serde,
            value_serde=value_serde,
            check_keys=not unchecked_keys,
            skip_existing=skip_existing,
            dry_run=dry_run,
            backend=backend,
            options=options,
        )


def import_bytewax(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The recovery store: with part-0.sqlite3.")
    ],
    *,
    to: ToOption = None,
    store: StoresOption = None,
    partitions: PartitionsOption = None,
    value_serde: ValueSerdeOption = None,
    skip_existing: SkipOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """WRITES: import the state of a Bytewax dataflow, as of the epoch from which it would resume.

    Each step is a store, imported whole or not at all. Values are pickles, which nobody unpickles.

    Example: statestores import-bytewax recovery/ --to roots/ --partitions 4
    """
    with BytewaxRecoveryStore(directory) as source:
        take_over(
            Output(json=json),
            source,
            to,
            stores=store,
            partitions=partitions,
            key_serde="utf8",
            value_serde=value_serde,
            skip_existing=skip_existing,
            dry_run=dry_run,
        )
