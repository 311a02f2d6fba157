"""Which relations are tried on which kind of store. Read this as the table of contents."""

from typing import ClassVar

from statestores_conformance.relations.particular_tests import (
    MergingRelationTests,
    SessionRelationTests,
    TimeToLiveRelationTests,
    WindowRelationTests,
)
from statestores_conformance.relations.tests import (
    ReadingRelationTests,
    ReplayRelationTests,
    WritingRelationTests,
)
from statestores_conformance.relations.transformed_tests import (
    TimeRelationTests,
    TransformationRelationTests,
)


class RelationTests:
    """The relations that hold for every kind. A kind gives them ``subject``."""

    kind_chapters: ClassVar[frozenset[str]]
    """The chapters of the specification that are about the kind; see `citations`."""

    TestWriting = WritingRelationTests
    TestReplay = ReplayRelationTests
    TestReading = ReadingRelationTests
    TestTransformations = TransformationRelationTests


class KeyValueRelations(RelationTests):
    """Those of a key-value store."""

    kind_chapters = frozenset({"KVS"})

    TestMerging = MergingRelationTests


class VersionedRelations(RelationTests):
    """Those of a versioned store."""

    kind_chapters = frozenset({"VRS"})

    TestTimes = TimeRelationTests


class TimestampedRelations(KeyValueRelations):
    """Those of a key-value store whose values may expire."""

    kind_chapters = frozenset({"KVS", "TKV", "TTL"})

    TestTimes = TimeRelationTests
    TestTimeToLive = TimeToLiveRelationTests


class WindowRelations(RelationTests):
    """Those of a window store."""

    kind_chapters = frozenset({"WIN"})

    TestTimes = TimeRelationTests
    TestWindows = WindowRelationTests


class SessionRelations(RelationTests):
    """Those of a session store."""

    kind_chapters = frozenset({"SES"})

    TestTimes = TimeRelationTests
    TestSessions = SessionRelationTests
