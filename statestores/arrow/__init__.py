"""Whole stores as Arrow: the row schemas, snapshots, restore, columns in and out, files.

Read `schemas` first, then `manifest`, `snapshot`, `snapshot_reader` and `restore`.
"""

import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.arrow.as_of.index import AsOfIndex
from statestores.arrow.as_of.join import join_as_of
from statestores.arrow.columns import bulk_load, get_many, put_many, update_many
from statestores.arrow.files.exporting import export_file, export_table
from statestores.arrow.files.format import FileFormat
from statestores.arrow.files.importing import import_file
from statestores.arrow.progress import Progress, ProgressCallback
from statestores.arrow.restoring.bulk_put import commit_many
from statestores.arrow.restoring.restore import RestoreReport, restore
from statestores.arrow.schemas import KEY_VALUE_ROWS, VERSIONED_ROWS, row_schema, valid_at
from statestores.arrow.snapshots.choice import SnapshotChoice, newest_valid_snapshot
from statestores.arrow.snapshots.directory import list_snapshots, remove_stale_temporaries
from statestores.arrow.snapshots.manifest import Manifest
from statestores.arrow.snapshots.reader import Snapshot, read_snapshot
from statestores.arrow.snapshots.snapshot import SnapshotInfo, write_snapshot

__all__ = [
    "KEY_VALUE_ROWS",
    "VERSIONED_ROWS",
    "AsOfIndex",
    "FileFormat",
    "Manifest",
    "Progress",
    "ProgressCallback",
    "RestoreReport",
    "Snapshot",
    "SnapshotChoice",
    "SnapshotInfo",
    "bulk_load",
    "commit_many",
    "export_file",
    "export_table",
    "get_many",
    "import_file",
    "join_as_of",
    "list_snapshots",
    "newest_valid_snapshot",
    "put_many",
    "read_snapshot",
    "remove_stale_temporaries",
    "restore",
    "row_schema",
    "update_many",
    "valid_at",
    "write_snapshot",
]
