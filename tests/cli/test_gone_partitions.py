"""What the commands say of a partition, or of its changelog, that was begun and is gone."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import statestores as ss
from statestores.logged_store import open_logged_store
from statestores.verification import Status, verify

Run: TypeAlias = Callable[..., Any]

_GONE = "counts/.begun/0' says that there was one; put the partition back from a copy"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Make a root with one store of one partition, in SQLite."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=1)
    with open_logged_store(root, "counts", 0, backend="sqlite") as counts:
        counts.store.put("k", 1)
        counts.commit()
    return root.path


@pytest.fixture(params=["counts/0", "counts/0/changelog"], ids=["partition", "changelog"])
def maimed(state: Path, request: pytest.FixtureRequest) -> Path:
    """Remove the partition, or the changelog in it."""
    shutil.rmtree(state / request.param)
    return state


@pytest.mark.spec("LAY-36")
def test_info_says_that_it_is_gone(maimed: Path, succeed: Run) -> None:
    """It was shown as an empty row, as one that nobody has begun is."""
    shown = succeed("info", maimed).out
    (store,) = succeed("info", maimed, "--json").document["stores"]
    (partition,) = store["partitions"]

    assert _GONE in shown
    assert "\tgone\t" in shown
    assert partition["changelog"]["gone"] is True
    assert _GONE in partition["changelog"]["error"]


@pytest.mark.spec("LAY-36")
def test_info_of_the_partition_itself_says_so(maimed: Path, run: Run) -> None:
    """Where the directory is gone, it said that there is nothing at the path."""
    outcome = run("info", maimed / "counts" / "0")

    assert _GONE in outcome.out + outcome.err
    assert "gone" in outcome.out + outcome.err


@pytest.mark.spec("LAY-36")
@pytest.mark.parametrize("options", [(), ("--no-rows",)], ids=["rows", "no rows"])
def test_doctor_says_so_once_and_what_to_do(
    maimed: Path, run: Run, options: tuple[str, ...]
) -> None:
    """It called the changelog damaged, and of segments to put back; without rows it said nothing.

    What it meant was wrong, too: nothing can be made from an engine that is not there.
    """
    outcome = run("doctor", maimed, "--json", *options)
    (symptom,) = outcome.document["symptoms"]

    assert outcome.code == 1
    assert symptom["code"] == "changelog-gone"
    assert _GONE in symptom["detail"]
    assert "Mount the disk" in symptom["meaning"]


@pytest.mark.spec("LAY-40")
def test_a_disk_that_does_not_answer_has_lost_nothing(state: Path, run: Run, succeed: Run) -> None:
    """What cannot be looked at was called gone, and whoever believed that began the store anew."""
    changelog = state / "counts" / "0" / "changelog"
    shutil.rmtree(changelog)
    changelog.symlink_to(changelog)  # the operating system refuses to look
    (store,) = succeed("info", state, "--json").document["stores"]
    shown = store["partitions"][0]["changelog"]
    (finding,) = [each for each in verify(state) if each.is_failure]

    assert shown.keys() == {"path", "bytes", "error"}
    assert "cannot look" in shown["error"]
    assert (finding.check, finding.status) == ("changelog", Status.NOT_CHECKED)
    for options in ((), ("--no-rows",)):
        (symptom,) = run("doctor", state, "--json", *options).document["symptoms"]
        assert symptom["code"] == "changelog-unreadable"
        assert "cannot look" in symptom["detail"]


@pytest.mark.spec("LAY-35")
@pytest.mark.parametrize(
    "command",
    [("scan",), ("get", "k"), ("export", "rows.arrow"), ("changelog",)],
    ids=lambda command: str(command[0]),
)
@pytest.mark.parametrize("path", ["", "counts/0"], ids=["root", "partition"])
def test_its_engine_is_not_read_instead(
    maimed: Path, run: Run, tmp_path: Path, command: tuple[str, ...], path: str
) -> None:
    """Rows of the engine were shown as those of the store, which the library refuses to open."""
    name, *arguments = command
    given = [tmp_path / each if each == "rows.arrow" else each for each in arguments]

    outcome = run(name, maimed / path, *given)

    assert outcome.code == 1
    assert outcome.out == ""
    assert _GONE in outcome.err
    assert not (tmp_path / "rows.arrow").exists()


def test_a_copy_outside_of_the_root_shows_what_the_engine_has(
    state: Path, succeed: Run, tmp_path: Path
) -> None:
    """As `doctor` says: there is no state root that knows of a changelog."""
    shutil.rmtree(state / "counts" / "0" / "changelog")
    shutil.copytree(state / "counts" / "0", tmp_path / "copy")

    assert succeed("get", tmp_path / "copy", "k").out == "1\n"


def test_a_store_that_never_had_a_changelog_is_read_by_its_engine(
    tmp_path: Path, succeed: Run
) -> None:
    """Nothing says that there was one: it was opened by itself, in a state root."""
    root = ss.StateRoot.create(tmp_path / "state")
    alone = ss.KeyValue("alone", key=ss.utf8, value=ss.int64)
    root.add_store(alone, partitions=1)
    with ss.open_store(root.path / "alone" / "0", alone, backend="sqlite") as store:
        store.put("k", 2)
        store.commit({})

    assert succeed("get", root.path, "k").out == "2\n"
    assert "gone" not in succeed("info", root.path).out
