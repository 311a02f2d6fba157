"""The durable log of a store's changes: its contract, and the log in files of Arrow frames.

Read `contract` first, then `frame`, `segment` and `file_log`. The bytes: ``spec/06-changelog.md``.
"""

import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.changelog.compaction import CompactionReport, compact
from statestores.changelog.contract import (
    NO_POSITION,
    Changelog,
    OffsetRange,
    ReadOnlyChangelog,
    changelog_partition,
)
from statestores.changelog.file_log import FileChangelog
from statestores.changelog.frame import Frame, FrameKind
from statestores.changelog.log_reader import ChangelogReader
from statestores.changelog.options import ChangelogOptions, Compression
from statestores.changelog.rows import KEY_VALUE_CHANGES, VERSIONED_CHANGES, change_schema
from statestores.changelog.segments.segment_directory import SegmentInfo
from statestores.changelog.segments.tail import TornTail

__all__ = [
    "KEY_VALUE_CHANGES",
    "NO_POSITION",
    "VERSIONED_CHANGES",
    "Changelog",
    "ChangelogOptions",
    "ChangelogReader",
    "CompactionReport",
    "Compression",
    "FileChangelog",
    "Frame",
    "FrameKind",
    "OffsetRange",
    "ReadOnlyChangelog",
    "SegmentInfo",
    "TornTail",
    "change_schema",
    "changelog_partition",
    "compact",
]
