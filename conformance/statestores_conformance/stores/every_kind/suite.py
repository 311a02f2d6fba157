"""All tests that hold for every kind of store."""

from typing import ClassVar

import pytest

from statestores_conformance.stores.every_kind.commit import (
    CommitTests,
    FailedCommitTests,
    RollbackTests,
    UncommittedBytesTests,
)
from statestores_conformance.stores.every_kind.interleavings import InterleavingTests
from statestores_conformance.stores.every_kind.metrics import MetricsTests
from statestores_conformance.stores.every_kind.offsets import OffsetTests, PositionTests
from statestores_conformance.stores.every_kind.opening import ClosedStoreTests, DescriptionTests
from statestores_conformance.stores.every_kind.read_only import FacadeTests, FacadeThreadTests
from statestores_conformance.stores.every_kind.replay import (
    CommittedContentTests,
    ReplayTests,
    TruncationTests,
)


@pytest.mark.level("store")
class AnyKindTests:
    """Everything that chapters 2 and 5 require of every store. A kind gives it ``stores``."""

    kind_chapters: ClassVar[frozenset[str]]
    """The chapters of the specification that are about the kind; see `citations`."""

    TestCommits = CommitTests
    TestFailedCommits = FailedCommitTests
    TestRollbacks = RollbackTests
    TestInterleavings = InterleavingTests
    TestOffsets = OffsetTests
    TestPositions = PositionTests
    TestUncommittedBytes = UncommittedBytesTests
    TestDescription = DescriptionTests
    TestClosing = ClosedStoreTests
    TestFacades = FacadeTests
    TestFacadesInThreads = FacadeThreadTests
    TestReplay = ReplayTests
    TestCommittedContent = CommittedContentTests
    TestTruncation = TruncationTests
    TestMetrics = MetricsTests
