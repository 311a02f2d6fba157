"""The command doctor: what it finds in roots that were maltreated, and that its commands mend."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pytest

import statestores as ss
from statestores import failpoints
from statestores.arrow.snapshots.directory import native_path
from statestores.changelog import change_schema
from statestores.cli.operating import examination
from statestores.cli.operating.ailments import AILMENTS, Severity
from statestores.errors import MissingDriverError
from statestores.logged_store import open_logged_store
from statestores.staging.staged_write import write_at_once
from statestores.upkeep import FileSnapshot

Run: TypeAlias = Callable[..., Any]

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


class _Died(BaseException):
    """The process ends here, as far as anybody can tell."""


def _die() -> None:
    raise _Died


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Make a root with one store in SQLite, a snapshot, and changes after it."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    with open_logged_store(root, "counts", 0, backend="sqlite") as counts:
        for number in range(10):
            counts.store.put(f"k{number}", number)
        counts.commit()
        counts.snapshot()
        counts.store.put("k1", 100)
        counts.commit()
    return root.path


def _found(run: Run, root: Path, *options: object) -> dict[str, dict[str, Any]]:
    """Return what doctor finds, by code; its exit code has to tell the same."""
    outcome = run("doctor", root, "--json", *options)
    document = outcome.document
    assert document["ok"] == (outcome.code == 0), outcome
    assert document["ok"] == all(each["severity"] == "note" for each in document["symptoms"])
    return {each["code"]: each for each in document["symptoms"]}


def test_nothing_is_wrong_with_a_healthy_root(state: Path, run: Run, succeed: Run) -> None:
    """Nor with one whose process has died, which mends itself."""
    assert _found(run, state) == {}
    assert succeed("doctor", state).err == "nothing is wrong; notes: 0\n"


class _Case(NamedTuple):
    """One way to maltreat a root."""

    code: str
    """What doctor calls it."""

    harm: Callable[[Path], object]
    """What is done to the partition's directory."""


def _engine_behind(place: Path) -> None:
    """Keep an engine as it was before a commit."""
    kept = place.with_name("kept")
    shutil.copytree(place / "engine", kept)
    with open_logged_store(place.parent.parent, "counts", 0) as counts:
        counts.store.put("k2", 200)
        counts.commit()
    shutil.rmtree(place / "engine")
    kept.rename(place / "engine")


def _engine_wrong(place: Path) -> None:
    """Put the engine of another store with the same offsets in place of it."""
    other = place.parent.parent.with_name("other")
    root = ss.StateRoot.create(other)
    root.add_store(COUNTS, partitions=1)
    with open_logged_store(root, "counts", 0, backend="sqlite") as counts:
        for number in range(11):
            counts.store.put(f"x{number}", number)
        counts.commit()
    shutil.rmtree(place / "engine")
    shutil.copytree(other / "counts" / "0" / "engine", place / "engine")


def _torn(place: Path) -> None:
    with (place / "changelog" / f"{0:020}.log").open("ab") as log:
        log.write(b"\x07" * 11)


def _snapshot_of(place: Path) -> Path:
    return place / "snapshots" / f"{9:020}"


def _native_damaged(place: Path) -> None:
    """Write a native part, and overwrite the engine's files in it."""
    with open_logged_store(place.parent.parent, "counts", 0) as counts:
        info = counts.snapshot(snapshot_format="native")
    assert info is not None
    _overwrite(native_path(info.path) / "engine")


_MENDED = (
    _Case("engine-damaged", lambda place: _overwrite(place / "engine")),
    _Case("engine-damaged", lambda place: shutil.rmtree(place / "engine")),
    _Case("engine-file-damaged", lambda place: (place / "engine.json").write_text("{")),
    _Case("engine-wrong", _engine_wrong),
    _Case("engine-behind", _engine_behind),
    _Case("torn-tail", _torn),
    _Case("snapshot-damaged", lambda place: _overwrite(_snapshot_of(place))),
    _Case("native-snapshot-damaged", _native_damaged),
    _Case(
        "left-over", lambda place: (place / ".engine.json.0123abcd.tmp").write_text('{"format":')
    ),
    _Case("engine-kept", lambda place: (place / "engine.damaged-20260101T000000Z").mkdir()),
)


def _overwrite(directory: Path) -> None:
    """Overwrite the files of *directory*."""
    for file in directory.iterdir():
        if file.name != "OWNER.lock":
            file.write_bytes(b"nonsense" * 100)


@pytest.mark.parametrize("case", _MENDED, ids=lambda case: case.code)
def test_the_command_mends_what_it_is_for(
    state: Path, run: Run, succeed: Run, case: _Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doctor itself changes nothing; after its command, it no longer finds the same."""
    monkeypatch.setattr("statestores.opening.DEFAULT_BACKEND", "sqlite")
    place = state / "counts" / "0"
    case.harm(place)
    before = {file: file.read_bytes() for file in _files(state)}
    symptom = _found(run, state)[case.code]
    after = {file: file.read_bytes() for file in _files(state)}
    for command in symptom["command"].split(" && "):
        program, *arguments = shlex.split(command)
        if program == "statestores":
            succeed(*arguments)
        else:
            subprocess.run([program, *arguments], check=True)

    assert after == before
    found = _found(run, state)
    assert case.code not in found
    assert not [each for each in found.values() if each["severity"] != "note"]
    assert succeed("get", state, "k1", "--store", "counts").out == "100\n"


def _files(root: Path) -> list[Path]:
    """Return the files that matter: an engine that is opened may touch its own."""
    return [
        file for file in root.rglob("*") if file.is_file() and "engine" not in file.parts[-2:-1]
    ]


def _root_file(place: Path) -> Path:
    return place.parent.parent / "statestores.json"


def _date_ahead(place: Path) -> None:
    for log in place.rglob("*.log"):
        os.utime(log, (9e9, 9e9))


_TOLD = (
    _Case("changelog-damaged", lambda place: _overwrite(place / "changelog")),
    _Case(
        "root-unreadable", lambda place: (place.parent.parent / "statestores.json").write_text("")
    ),
    _Case("newer-format", lambda place: _root_file(place).write_text('{"format":99,"stores":{}}')),
    _Case("store-damaged", lambda place: (place.parent / "7").mkdir()),
    _Case("orphan", lambda place: (place.parent.parent / "stranger").mkdir()),
    _Case("clock-ahead", _date_ahead),
)


@pytest.mark.parametrize("case", _TOLD, ids=lambda case: case.code)
def test_what_no_command_mends_is_told(state: Path, run: Run, case: _Case) -> None:
    """With what it means."""
    case.harm(state / "counts" / "0")

    assert _found(run, state)[case.code]["meaning"]


def test_what_only_the_engine_has_is_not_thrown_away(state: Path, run: Run) -> None:
    """A changelog that lost its end must not be what the engine is made from."""
    place = state / "counts" / "0"
    kept = place.with_name("kept")
    shutil.copytree(place / "changelog", kept)
    with open_logged_store(state, "counts", 0) as counts:
        counts.store.put("k2", 200)
        counts.commit()
    shutil.rmtree(place / "changelog")
    kept.rename(place / "changelog")
    found = _found(run, state)

    assert found["engine-ahead"]["command"] is None
    assert "engine-wrong" not in found


def test_an_engine_that_nothing_can_replace_has_no_command(state: Path, run: Run) -> None:
    """Neither has the last snapshot of what a changelog has dropped."""
    place = state / "counts" / "0"
    shutil.rmtree(place / "changelog")
    _overwrite(place / "engine")

    assert _found(run, state)["engine-alone-damaged"]["command"] is None


def test_what_is_no_root_is_told(tmp_path: Path, state: Path, run: Run) -> None:
    """Nothing, a file, an empty directory, garbage, and a store inside of a root."""
    file = tmp_path / "file"
    file.write_bytes(b"\x00")
    empty = tmp_path / "empty"
    empty.mkdir()
    details = [
        _found(run, place)["no-root"]["detail"]
        for place in (tmp_path / "nothing", file, empty, tmp_path, state / "counts")
    ]

    assert details[:3] == [
        "there is nothing at this path",
        "this is a file",
        "this directory is empty",
    ]
    assert details[3].endswith(f"below it there is {str(state)!r}: give that path")
    assert "give that one" in details[4]


def test_a_path_that_is_too_long_is_no_damage(run: Run) -> None:
    """It said to put statestores.json back from a backup."""
    shown = run("doctor", "x" * 4_000)

    assert shown.code == 2
    assert "give a shorter one" in shown.err
    assert "backup" not in shown.out + shown.err


def test_a_store_in_no_root_is_looked_at_alone(tmp_path: Path, run: Run) -> None:
    """A stranger's first store is one: `doctor` said no more of it than that it is no root.

    And `info` of the directory above it did not name it.
    """
    place = tmp_path / "first" / "rates" / "0"
    with ss.open_store(place, ss.KeyValue("rates"), backend="sqlite") as store:
        store.put(b"key", b"value")
        store.commit({})

    assert list(_found(run, place)) == ["single-store"]
    assert run("doctor", place).code == 0
    _overwrite(place / "engine")
    assert "single-store-damaged" in _found(run, place)
    told = run("info", tmp_path / "first")
    assert told.code == 1
    assert told.err.endswith(f"below it there is {str(place)!r}: give that path\n")


def test_a_root_in_use_is_looked_at_beside_its_writer(state: Path, run: Run) -> None:
    """The writer keeps its lock, and the rows of its engine are not checked."""
    with open_logged_store(state, "counts", 0) as counts:
        found = _found(run, state)
        counts.store.put("k3", 300)
        counts.commit()

    assert found.keys() == {"in-use"}
    assert str(os.getpid()) in found["in-use"]["detail"]


def test_a_new_root_and_long_restores_are_told(tmp_path: Path, state: Path, run: Run) -> None:
    """One has no stores yet; the other has more changes than its operator wants."""
    fresh = ss.StateRoot.create(tmp_path / "fresh")

    assert _found(run, fresh.path).keys() == {"no-stores"}
    assert _found(run, state, "--changes", "0").keys() == {"long-restore"}
    assert _found(run, state, "--changes", "0", "--no-rows").keys() == {"long-restore"}


def test_a_backend_that_is_not_installed_is_named(
    state: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the extra that has it."""

    def missing(name: str) -> None:
        raise MissingDriverError(f"the backend {name!r} needs a package")

    monkeypatch.setattr(examination, "load_backend", missing)
    found = _found(run, state, "--no-rows")

    assert found["backend-missing"]["command"] == "pip install 'statestores[sqlite]'"


def test_places_that_cannot_be_written_and_full_disks_are_told(
    state: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A superuser may write anywhere, so the system's answers are changed here."""

    class Full:
        f_flag, f_blocks, f_bavail = 0, 1_000, 1

    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr("os.statvfs", lambda _: Full)
    found = _found(run, state, "--no-rows", "--no-engine")

    assert found["disk-full"]["detail"] == "0.1 % of the disk is free"
    assert found["not-writable"]["command"].startswith("chmod u+rwx ")


def test_an_unfinished_write_is_told(state: Path, run: Run, succeed: Run) -> None:
    """The next writer finishes it, and so does the command.

    A snapshot that somebody writes meanwhile has it already, as all readers do; it was called
    damaged, and `lag` had a restore apply -1 changes.
    """
    root = ss.StateRoot.open(state)
    rows = [{"key": b"k2", "value": ss.int64.encode(200)}]
    change = pa.RecordBatch.from_pylist(rows, change_schema(COUNTS.kind))
    failpoints.arm("publish.committed", _die)
    with pytest.raises(_Died):
        write_at_once(root, "counts", [change])
    failpoints.disarm()
    FileSnapshot(directory=root.partition("counts", 0), number=0, specification=COUNTS)()
    found = _found(run, state)
    (row,) = succeed("lag", state, "--json").lines

    assert set(found) == {"unfinished-write", "engine-behind"}
    assert (row["lag"], row["since_snapshot"]) == (1, 0)
    command = found["unfinished-write"]["command"]
    succeed(*shlex.split(command)[1:])
    assert _found(run, state) == {}


def test_every_ailment_says_what_to_do() -> None:
    """By a command, or in what it means; errors are never without either."""
    for code, ailment in AILMENTS.items():
        assert code == ailment.code
        assert ailment.meaning[0].islower()
        assert not ailment.meaning.endswith(".")
        if ailment.severity is Severity.ERROR and ailment.command is None:
            assert any(word in ailment.meaning for word in ("backup", "check the path")), code
