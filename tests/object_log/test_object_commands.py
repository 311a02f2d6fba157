"""The commands on a state root in an object store, beside the owner of a partition."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from counted_words import put

import statestores as ss
from statestores.resharding import reshard
from statestores.storage import Found, open_storage
from statestores.storage.obstore_driver import ObstoreStorage
from statestores.verification import Status, verify


@pytest.mark.spec("OBJ-13", "OBJ-15")
def test_the_command_compacts(root: ss.StateRoot, url: str, tmp_path: Path) -> None:
    """Beside the owner, who goes on."""
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "a", backend="memory"
    ) as counts:
        put(counts, *(("a", number) for number in range(20)))
        storage = open_storage(url)
        storage.create("counts/segments/of-the-dead/0", b"nothing")
        outcome = invoke("compact", url, "--json")
        assert json.loads(outcome.stdout)["changes_after"] == 1
        assert invoke("compact", url, "--drop-covered").exit_code != 0
        names = [each.name for each in storage.list("counts/")]
        assert len([name for name in names if "/own/" in name or "/root/" in name]) == 0
        assert len([name for name in names if "/segments/" in name]) == 1
        put(counts, ("b", 20))
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "b", backend="memory"
    ) as counts:
        assert dict(counts.store.range()) == {"a": 19, "b": 20}


@pytest.mark.spec("OBJ-34")
def test_a_command_that_was_overtaken_says_what_to_run(
    root: ss.StateRoot, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named a segment that "is gone"; or told to open the state root again, as a program does.

    Whoever runs a command can do neither. Now one message says who came first, and what to run.
    """
    read, log = ObstoreStorage.read, root.object_log("counts")

    def write(number: int) -> None:
        with ss.open_logged_store(
            root, "counts", 0, directory=tmp_path / "a", backend="memory"
        ) as counts:
            put(counts, ("a", number))

    def compact_again() -> None:
        write(3)
        log.compact()

    for command, meanwhile, expected in (
        (
            "compact",
            compact_again,
            f"or compacted the store 'counts' of {url!r} meanwhile: partition 0 is as that one",
        ),
        (
            "scan",
            lambda: reshard(url, "counts", 3),
            "run the command again, which reads the partitions that it has now",
        ),
    ):
        write(1)
        log.fold()
        write(2)
        begun: list[str] = []

        def overtaken(
            self: Any,
            name: str,
            known_tag: str | None = None,
            begun: list[str] = begun,
            meanwhile: Callable[[], object] = meanwhile,
        ) -> Any:
            if "/segments/" in name and not begun:
                begun.append(name)
                meanwhile()
            return read(self, name, known_tag)

        monkeypatch.setattr(ObstoreStorage, "read", overtaken)
        outcome = invoke(command, url, "--store", "counts")
        monkeypatch.undo()

        assert outcome.exit_code == 1
        assert expected in outcome.stderr
        assert "root again" not in outcome.stderr
        assert invoke(command, url, "--store", "counts").exit_code == 0


def test_the_commands_that_look_into_changelogs(
    root: ss.StateRoot, url: str, tmp_path: Path
) -> None:
    """What there is of each partition, and every change with its offset, beside the owner."""

    def run(*arguments: str) -> Any:
        outcome = invoke(*arguments, "--json")
        assert outcome.exit_code == 0, outcome.stderr
        return [json.loads(line) for line in outcome.stdout.replace("\n  ", "").splitlines()]

    root.add_store(ss.KeyValue("other"), partitions=1)
    with ss.open_logged_store(
        root, "counts", 1, directory=tmp_path / "a", backend="memory"
    ) as counts:
        put(counts, ("a", 1), ("b", 2))
        root.object_log("counts").fold()
        put(counts, ("a", 3))
        changes = run("changelog", url, "--store", "counts", "--partition", "1")
        assert [(row["offset"], row["key"], row["value"]) for row in changes] == [
            (0, "a", 1),
            (1, "b", 2),
            (2, "a", 3),
        ]
        assert run("changelog", url, "--store", "other") == []
        outcome = invoke("info", url, "--json")
        partitions = json.loads(outcome.stdout)["partitions"]
        said = [(row["store"], row["end_offset"], row["owned"]) for row in partitions]
        assert said == [("counts", 0, False), ("counts", 3, True), ("other", 0, False)]
        assert (partitions[1]["entries"], partitions[1]["segments"]) == (1, 1)
        assert "counts\t1\t3\ttrue" in invoke("info", url).stdout
        assert invoke("changelog", url, "--partition", "7").exit_code != 0


@pytest.mark.spec("OBJ-34")
def test_the_commands_that_read_rows(root: ss.StateRoot, url: str, tmp_path: Path) -> None:
    """One key, all rows, a check of everything, and an engine made ahead; the owner goes on."""

    def run(*arguments: str, code: int = 0) -> Any:
        outcome = invoke(*arguments)
        assert outcome.exit_code == code, outcome.stderr
        return outcome

    with ss.open_logged_store(
        root, "counts", 1, directory=tmp_path / "a", backend="memory"
    ) as counts:
        put(counts, ("a", 1), ("b", 2))
        root.object_log("counts").fold()
        put(counts, ("a", 3))
        rows = run("scan", url, "--json").stdout.splitlines()
        assert [json.loads(row)["value"] for row in rows] == [3, 2]
        assert run("get", url, "a", "--partition", "1").stdout.strip() == "3"
        exported = tmp_path / "rows.parquet"
        run("export", url, str(exported))
        assert exported.stat().st_size > 0

        found = json.loads(run("verify", url, "--json", code=1).stdout)["checks"]
        assert {(each["check"], each["status"]) for each in found} == {
            ("store", "ok"),
            ("changelog", "ok"),
            ("partition", "ok"),
            ("partition", "misplaced"),
        }
        assert "--local" in run("restore", url, code=2).stderr
        assert "remove its directory" in (
            run("restore", url, "--local", str(tmp_path), "--rebuild", code=2).stderr
        )
        local = str(tmp_path / "local")
        run("restore", url, "--local", local, "--backend", "sqlite")
        put(counts, ("c", 4))
    with ss.open_logged_store(root, "counts", 1, directory=f"{local}/counts/1") as counts:
        assert counts.restored.changelog_rows == 1
        assert dict(counts.store.range()) == {"a": 3, "b": 2, "c": 4}
    storage = open_storage(url)
    (segment,) = (each.name for each in storage.list("counts/segments/"))
    found_there = storage.read(segment)
    assert isinstance(found_there, Found)
    storage.delete(segment)
    storage.create(segment, found_there.data[:-9] + b"something")
    damaged = [finding for finding in verify(url) if finding.status is Status.DAMAGED]
    assert [(each.check, segment in each.detail) for each in damaged] == [("changelog", True)]
