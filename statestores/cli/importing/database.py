"""The command `import-database`: a plain database of RocksDB, LevelDB or SQLite as key-value."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from statestores.cli.arguments import JsonOption
from statestores.cli.importing.taking_over import (
    DryRunOption,
    KeySerdeOption,
    PartitionsOption,
    SkipOption,
    ToOption,
    ValueSerdeOption,
    serde_or_none,
    take_over,
)
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError
from statestores.migration import LevelDBDatabase, RocksDBDatabase, SQLiteTable
from statestores.migration.peers.source import PeerState


class Engine(Enum):
    """Whose database it is."""

    ROCKSDB = "rocksdb"
    LEVELDB = "leveldb"
    SQLITE = "sqlite"


def import_database(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The directory, or the file of SQLite.")
    ],
    *,
    engine: Annotated[Engine, typer.Option("--engine", help="Whose database it is.")],
    to: ToOption = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="NAME", help="The new store's name."),
    ] = None,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="RocksDB: the column family.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="SQLite: the table, or a view.")
    ] = None,
    key_column: Annotated[
        str, typer.Option(metavar="NAME", help="SQLite: the column of the keys.")
    ] = "key",
    value_column: Annotated[
        str, typer.Option(metavar="NAME", help="SQLite: the column of the values.")
    ] = "value",
    partitions: PartitionsOption = None,
    key_serde: KeySerdeOption = None,
    value_serde: ValueSerdeOption = None,
    skip_existing: SkipOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """WRITES: import a database that no library has made; it is only read, and its program stopped.

    Bytes stay as they are. Texts and numbers of SQLite are written by the serdes that are given.
    All rows are imported or none.

    Example: statestores import-database app.db --engine sqlite --table users --to state/
    """
    key, value = serde_or_none(key_serde), serde_or_none(value_serde)
    if engine is not Engine.ROCKSDB and family is not None:
        raise InvalidArgumentError("--family is of RocksDB")
    if (engine is Engine.SQLITE) != (table is not None):
        raise InvalidArgumentError("--table is of SQLite, and needed there")

    def opened() -> PeerState:
        if table is not None:
            return SQLiteTable(
                path,
                table,
                key=key_column,
                value=value_column,
                key_serde=key,
                value_serde=value,
                name=store,
            )
        if engine is Engine.LEVELDB:
            return LevelDBDatabase(path, name=store)
        return RocksDBDatabase(path, family=family or "default", name=store)

    with opened() as source:
        take_over(
            Output(json=json),
            source,
            to,
            stores=None,
            partitions=partitions,
            key_serde=key_serde,
            value_serde=value_serde,
            skip_existing=skip_existing,
            dry_run=dry_run,
        )
