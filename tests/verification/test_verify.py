"""A verification by the library: what it looks at, in which order, and what it does not touch."""

import json
import shlex
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import invoke

import statestores as ss
from statestores import failpoints
from statestores.arrow import write_snapshot
from statestores.arrow.progress import Progress
from statestores.arrow.snapshots.reader import Snapshot
from statestores.changelog import change_schema
from statestores.errors import StoreCorruptedError, StoreMismatchError, StoreNotFoundError
from statestores.logged_store import open_logged_store
from statestores.staging.staged_write import write_at_once
from statestores.upkeep import FileSnapshot
from statestores.verification import Finding, Status, verify

ROWS = 25_000
"""More than are read between two words about the progress."""


class _Died(BaseException):
    """The process ends here, as far as anybody can tell."""


def _die() -> None:
    raise _Died


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a state root of two stores, one of them with a snapshot."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts"), partitions=2)
    state.add_store(ss.Versioned("rates", history_retention_ms=100), partitions=1)
    with open_logged_store(state, "counts", 0, backend="sqlite") as counts:
        counts.store.put_all((b"%d" % number, b"v") for number in range(ROWS))
        counts.commit()
    with open_logged_store(state, "rates", 0, backend="sqlite") as rates:
        rates.store.put(b"EUR", b"1", timestamp_ms=5)
        rates.commit()
        rates.snapshot()
    return state.path


def _said(findings: list[Finding], root: Path) -> list[tuple[str, str, Status]]:
    return [(each.check, str(Path(each.path).relative_to(root)), each.status) for each in findings]


def test_everything_below_a_state_root_is_looked_at(root: Path) -> None:
    """Store by store and partition by partition; files first, then the engine, then both."""
    findings = list(verify(root / "rates"))
    (snapshot,) = (root / "rates/0/snapshots").iterdir()

    assert _said(findings, root) == [
        ("store", "rates", Status.OK),
        ("changelog", "rates/0/changelog", Status.OK),
        ("snapshot", str(snapshot.relative_to(root)), Status.OK),
        ("content", str(snapshot.relative_to(root)), Status.OK),
        ("rows", "rates/0/engine", Status.OK),
        ("content", "rates/0/engine", Status.OK),
    ]
    assert {each.path for each in findings} < {each.path for each in verify(root)}


@pytest.mark.parametrize("place", ["rates/0", "rates/0/changelog"])
def test_a_part_can_be_checked_by_itself(root: Path, place: str) -> None:
    """A partition, or its changelog: what lies there and no more."""
    findings = list(verify(root / place))

    assert findings
    assert not any(finding.is_failure for finding in findings)
    assert all((root / place) in (each.path, *Path(each.path).parents) for each in findings)


def test_an_engine_that_is_open_is_not_checked(root: Path) -> None:
    """Nobody knows how it is, which is a failure; without the engine nothing is said of it."""
    with open_logged_store(root, "rates", 0):
        asked = list(verify(root / "rates"))
        files_only = list(verify(root / "rates", with_engine=False))

    assert asked[-1].status is Status.NOT_CHECKED
    assert asked[-1].is_failure
    assert files_only[-1].status is Status.SKIPPED
    assert not any(finding.is_failure for finding in files_only)


def test_findings_come_one_by_one(root: Path) -> None:
    """Who stops early has the rest not read: no engine is opened for the first two."""
    findings = verify(root / "rates")
    first = list(islice(findings, 2))
    with open_logged_store(root, "rates", 0) as rates:
        latest = rates.store.get(b"EUR")

    assert [finding.check for finding in first] == ["store", "changelog"]
    assert latest is not None


def test_progress_is_told_while_rows_are_read(root: Path) -> None:
    """In rows of engines; what the callback raises ends the verification."""
    told: list[int] = []
    list(verify(root, progress=lambda progress: told.append(progress.rows)))

    def refuse(progress: Progress) -> None:
        raise InterruptedError(f"enough after {progress.rows}")

    assert told == [10_000, 20_000]
    with pytest.raises(InterruptedError, match="enough after 10000"):
        list(verify(root, progress=refuse))


def test_a_path_with_nothing_is_refused_at_once(tmp_path: Path) -> None:
    """By the call, before anybody asks for a finding."""
    with pytest.raises(StoreNotFoundError, match="there is nothing at"):
        verify(tmp_path / "missing")


@pytest.mark.spec("LGS-8")
@pytest.mark.parametrize("store", ["rates", "counts"])
def test_a_changelog_that_is_gone_is_found(root: Path, store: str) -> None:
    """The directory of a changelog was not copied, and `verify` said that nothing was wrong.

    The store is not opened without it. A snapshot shows that there was one, or the engine does, and
    a store of which there is neither never had one.
    """
    before = [each for each in verify(root) if each.status is Status.DAMAGED]
    changelog = root / store / "0" / "changelog"
    shutil.rmtree(changelog)
    found = [each for each in verify(root) if each.status is Status.DAMAGED]

    assert before == []
    assert {(each.check, each.path) for each in found} == {("changelog", changelog)}
    assert all("is gone" in each.detail for each in found)
    with pytest.raises(StoreMismatchError, match="is gone"):
        open_logged_store(root, store, 0)


@pytest.mark.spec("LAY-29")
def test_an_engine_of_which_nothing_says_whose_it_is_is_found(root: Path) -> None:
    """`engine.json` was not copied, the store was refused, and `verify` looked at no engine there.

    What `doctor` advises mends it. An engine that is just being made is not one of them.
    """
    place = root / "rates" / "0"
    (place / "engine.json").rename(place / "engine.creating.json")
    being_made = [each for each in verify(root / "rates") if each.is_failure]
    (place / "engine.creating.json").unlink()
    [found] = [each for each in verify(root / "rates") if each.is_failure]
    told = json.loads(invoke("doctor", str(root), "--json").stdout)["symptoms"]
    [mended] = [each["command"] for each in told if each["code"] == "engine-damaged"]
    with pytest.raises(StoreCorruptedError) as refused:
        open_logged_store(root, "rates", 0)
    outcome = invoke(*shlex.split(mended)[1:])

    assert being_made == []
    assert (found.check, found.path, found.detail) == (
        "engine",
        place / "engine",
        str(refused.value),
    )
    assert outcome.exit_code == 0
    assert [each for each in verify(root / "rates") if each.is_failure] == []


@pytest.mark.spec("LGS-8")
def test_a_store_that_never_had_a_changelog_lacks_none(tmp_path: Path) -> None:
    """One that was opened by itself in a state root, with snapshots of it beside it."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("alone"), partitions=1)
    with ss.open_store(state.path / "alone" / "0", ss.KeyValue("alone"), backend="sqlite") as alone:
        alone.put(b"k", b"v")
        alone.commit({ss.TopicPartition("input", 0): 3})
        write_snapshot(alone, state.partition("alone", 0).snapshots)

    assert [each for each in verify(state.path) if each.is_failure] == []


def test_a_snapshot_of_what_is_committed_and_not_appended_is_whole(tmp_path: Path) -> None:
    """A job had died behind its commit, and somebody wrote a snapshot of what readers saw.

    It was called damaged, "the changelog has lost its end", and doctor said how to remove it.
    """
    root = ss.StateRoot.create(tmp_path / "state")
    counts = ss.KeyValue("counts")
    root.add_store(counts, partitions=1)
    rows = [{"key": b"a", "value": b"1"}, {"key": b"b", "value": None}]
    changes = pa.RecordBatch.from_pylist(rows, change_schema(counts.kind))
    write_at_once(root, "counts", [changes])
    failpoints.arm("publish.committed", _die)
    with pytest.raises(_Died):
        write_at_once(root, "counts", [changes.slice(0, 1)])
    failpoints.disarm()
    FileSnapshot(directory=root.partition("counts", 0), number=0, specification=counts)()
    findings = list(verify(root.path))

    assert [each.detail for each in findings if each.is_failure] == []
    assert {each.detail for each in findings} > {
        "1 rows at offset 2",
        "equals its changelog up to offset 2",
    }


@pytest.mark.spec("LAY-40")
def test_a_snapshot_that_is_removed_meanwhile_is_no_damage(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vacuum ran beside the check, which called what that removed damaged, in both kinds of root.

    It was listed, and is gone when it is read, or when it is compared.
    """
    url = f"memory://verified/{tmp_path.name}"
    state = ss.StateRoot.create(url)
    state.add_store(ss.KeyValue("counts"), partitions=1)
    with open_logged_store(
        state, "counts", 0, directory=tmp_path / "local", backend="memory"
    ) as counts:
        counts.store.put(b"k", b"v")
        counts.commit()
        for method in ("verify", "batches"):
            counts.snapshot()
            if not any((root / "rates/0/snapshots").iterdir()):
                with open_logged_store(root, "rates", 0, backend="sqlite") as rates:
                    rates.snapshot()
            call = getattr(Snapshot, method)

            def removing(snapshot: Snapshot, *given: Any, call: Any = call) -> Any:
                if isinstance(snapshot.place, Path):
                    shutil.rmtree(snapshot.place)
                else:
                    assert state.storage is not None
                    for each in list(state.storage.list(snapshot.place.removeprefix(f"{url}/"))):
                        state.storage.delete(each.name)
                return call(snapshot, *given)

            with monkeypatch.context() as patched:
                patched.setattr(Snapshot, method, removing)
                found = [*verify(root / "rates"), *verify(url)]

            assert [each for each in found if each.is_failure] == [], method
            assert not any((root / "rates/0/snapshots").iterdir())
