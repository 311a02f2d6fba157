"""The relations find what is wrong without a model, and leave a file that shows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from statestores.spi import Durability, WriteBatch
from statestores_conformance.openers import StoreOnEngine
from statestores_conformance.relation_tests import (
    ReadingRelationTests,
    ReplayRelationTests,
    WritingRelationTests,
)
from statestores_conformance.relations import KeyValueKind, Subject, VersionedKind
from statestores_conformance.reproduction import DIRECTORY_VARIABLE
from statestores_memory import MemoryEngine


class ReverseLosesOneEngine(MemoryEngine):
    """Leaves the last pair out of long reverse scans."""

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Scan, nearly."""
        pairs = list(super().scan(start, stop, reverse=reverse))
        return iter(pairs[:-1] if reverse and len(pairs) > 1 else pairs)


class SmallBatchEngine(MemoryEngine):
    """Forgets what comes after the sixth change of a batch."""

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply the beginning."""
        super().apply(dict(list(batch.items())[:6]), durability)


class HastyEngine(MemoryEngine):
    """Forgets deletions that need not be durable."""

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply what is worth while."""
        if durability is Durability.PROCESS_CRASH:
            batch = {key: value for key, value in batch.items() if value is not None}
        super().apply(batch, durability)


@pytest.fixture(autouse=True)
def _without_shrinking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Find, and do not shrink: this is about what is found."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "found"))
    before = settings()
    settings.register_profile("found", before, phases=[Phase.generate], max_examples=200)
    settings.load_profile("found")
    yield
    settings.register_profile("restored", before)
    settings.load_profile("restored")


@pytest.mark.parametrize(
    ("engine", "relation"),
    [
        (ReverseLosesOneEngine, ReadingRelationTests().test_reverse_is_reversed),
        (SmallBatchEngine, WritingRelationTests().test_any_split_of_a_batch_is_one_batch),
        (SmallBatchEngine, ReplayRelationTests().test_replaying_the_changes_gives_the_store),
        (HastyEngine, WritingRelationTests().test_durability_changes_no_answer),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_broken_engine_is_caught(
    engine: type[MemoryEngine], relation: object, tmp_path: Path
) -> None:
    """Each by the relation that speaks of what is wrong with it."""
    assert callable(relation)
    with pytest.raises(AssertionError):
        relation(Subject(KeyValueKind(), StoreOnEngine(engine.open), tmp_path))

    assert len(list((tmp_path / "found").iterdir())) == 1


@pytest.mark.parametrize("kind", [KeyValueKind(), VersionedKind()], ids=["kv", "versioned"])
def test_every_form_of_read_is_asked(kind: KeyValueKind | VersionedKind) -> None:
    """What a kind does not ask, no relation compares."""
    asked = {read.method for read in kind.reads()}
    iterated = {read.method for read in kind.iterations()}
    columns = {split.whole.method for split in kind.columns()}

    assert iterated < asked
    assert columns == {"get_many"}
    assert {split.whole.method for split in kind.splits()} <= iterated
