"""The commands lag, top, diff and du, engines in other directories, times, and CSV."""

import csv
import io
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from command_line import invoke

import statestores as ss
from statestores.logged_store import open_logged_store
from statestores.serving import FollowedRoot, HttpServer

Run: TypeAlias = Callable[..., Any]

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Make a root with one store of one partition, ten keys in SQLite, a snapshot, ten changes."""
    root = ss.StateRoot.create(tmp_path / "counted")
    root.add_store(COUNTS, partitions=1)
    with open_logged_store(root, "counts", 0, backend="sqlite") as counts:
        for number in range(10):
            counts.store.put(f"k{number}", number)
        counts.commit()
        counts.snapshot()
        for number in range(10):
            counts.store.put(f"k{number}", number if number % 2 else -number)
            counts.commit()
    return root.path


def test_lag_asks_an_engine_that_nobody_has_open(state: Path, succeed: Run) -> None:
    """It has everything, and a restore would begin with the snapshot."""
    (row,) = succeed("lag", state, "--json").lines

    assert row["last_write_ms"] > 1_600_000_000_000
    assert {**row, "last_write_ms": 0} == {
        "store": "counts",
        "partition": 0,
        "condition": "idle",
        "next_offset": 20,
        "end_offset": 20,
        "lag": 0,
        "since_snapshot": 10,
        "last_write_ms": 0,
        "owner": None,
        "detail": None,
    }


def test_lag_of_engines_elsewhere_is_everything_until_they_are_restored(
    state: Path, tmp_path: Path, succeed: Run, run: Run
) -> None:
    """``--max`` turns it into an exit code."""
    (tmp_path / "local").mkdir()
    local = ("--local", tmp_path / "local")
    before = run("lag", state, *local, "--json", "--max", "19")
    succeed("restore", state, *local, "--backend", "sqlite")
    after = succeed("lag", state, *local, "--json", "--max", "0")

    assert before.code == 1
    assert [(row["condition"], row["lag"]) for row in before.lines] == [("no engine", 20)]
    assert [(row["condition"], row["lag"]) for row in after.lines] == [("idle", 0)]


def test_lag_leaves_an_engine_in_use_alone(state: Path, run: Run) -> None:
    """Its owner is named, its lag is unknown, and that is above every bound."""
    with open_logged_store(state, "counts", 0):
        found = run("lag", state, "--json", "--max", "100")
        shown = run("top", state, "--json")

    (row,) = found.lines
    assert (found.code, row["condition"], row["lag"]) == (1, "in use", None)
    assert " on " in row["owner"]
    assert [each["condition"] for each in shown.lines] == ["in use"]


def test_lag_does_not_open_engines_when_told_so(state: Path, succeed: Run) -> None:
    """The changelog says the rest."""
    (row,) = succeed("lag", state, "--no-engine", "--json").lines

    assert (row["condition"], row["lag"], row["end_offset"]) == ("not opened", None, 20)


def test_lag_asks_running_instances_by_their_url(state: Path, succeed: Run, run: Run) -> None:
    """What `serve` prints is what it takes."""
    with FollowedRoot(state, backend="memory") as followed, HttpServer(followed, port=0) as server:
        while run("lag", "--url", server.url, "--max", "0").code:
            time.sleep(0.02)  # the copy follows in the background; the test has a time limit
        (row,) = succeed("lag", "--url", server.url, "--json").lines
        other = run("lag", "--url", server.url, "--store", "nope")

    assert (row["store"], row["partition"], row["lag"]) == ("counts", 0, 0)
    assert row["end_offset"] == 20
    assert other.code == 1
    assert "no instance" in other.err


def test_top_says_how_fast_changelogs_grow(state: Path, succeed: Run) -> None:
    """Where there is no terminal it prints blocks of lines; the first has no rate yet."""
    once = succeed("top", state, "--json").lines
    twice = succeed("top", state, "--json", "--count", "2", "--interval", "0.1").lines

    assert [row["changes_per_second"] for row in once] == [None]
    assert [row["changes_per_second"] for row in twice] == [None, 0.0]
    assert twice[0]["end_offset"] == 20
    assert succeed("top", state).out.startswith("store\tpartition\t")


def test_top_draws_a_table_on_a_terminal(
    state: Path, succeed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anew for each look, as often as it is told, and readable on 80 columns.

    There headings were "partit" above "ion", times had five lines, and columns without a word in
    them took the room.
    """
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    for width in ("160", "80"):
        monkeypatch.setenv("COLUMNS", width)
        drawn = succeed("top", state, "--count", "2", "--interval", "0.1").out
        lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).splitlines()

        assert drawn.count("changes/s") >= 2
        assert "\t" not in drawn
        assert all(len(line) <= int(width) for line in lines)
        headings = " ".join(lines).split()
        assert {"partition", "condition", "changelog", "snapshot"} <= {*headings}
        assert "detail" not in headings


def test_shells_complete_commands() -> None:
    """As ``docs/operating.md`` tells it."""
    words = {"COMP_WORDS": "statestores doc", "COMP_CWORD": "1"}
    environment = {"_STATESTORES_COMPLETE": "complete_bash", **words}
    found = invoke(environment=environment)
    script = invoke(environment={"_STATESTORES_COMPLETE": "source_bash"})

    assert found.stdout.split() == ["doctor"]
    assert "complete_bash" in script.stdout


def test_a_store_does_not_differ_from_itself(state: Path, root: Path, succeed: Run) -> None:
    """Of any kind, with one partition or several."""
    assert succeed("diff", state, state).err == "nothing differs\n"
    assert succeed("diff", root / "planes", root / "planes").out == ""


def test_diff_shows_what_has_changed_since_a_snapshot(state: Path, run: Run) -> None:
    """By key, with both values, and exit code 1."""
    snapshot = state / "counts" / "0" / "snapshots" / f"{9:020}"
    found = run("diff", snapshot, state, "--json")
    offsets = run("diff", state, state, "--offset-a", "9", "--json")
    nothing = run("diff", state, state, "--offset-a", "-1", "--json")

    assert found.code == offsets.code == nothing.code == 1
    assert [(row["change"], row["key"], row["value_a"], row["value_b"]) for row in found.lines] == [
        ("differs", f"k{number}", number, -number) for number in (2, 4, 6, 8)
    ]
    assert offsets.lines == found.lines
    assert {row["change"] for row in nothing.lines} == {"only in B"}
    assert len(nothing.lines) == 10


def test_diff_compares_versions_across_numbers_of_partitions(
    root: Path, tmp_path: Path, run: Run, succeed: Run
) -> None:
    """A copy with another number of partitions is equal, until a version is written into it."""
    file = tmp_path / "planes.arrow"
    other = ss.StateRoot.create(tmp_path / "other")
    succeed("export", root / "planes", file)
    planes = ss.StateRoot.open(root).store("planes").specification
    other.add_store(planes, partitions=2)
    succeed("import", file, other.path, "--store", "planes")
    same = run("diff", root / "planes", other.path / "planes", "--json")
    with open_logged_store(other, "planes", 1, backend="memory") as part:
        part.store.put("another", {"day": 9}, timestamp_ms=1_373_300_000_000)
        part.commit()
    differs = run("diff", root / "planes", other.path / "planes", "--json")
    counted = run("diff", root / "planes", other.path / "planes", "--summary", "--json")

    assert (same.code, same.out) == (0, "")
    assert differs.code == 1
    (row,) = differs.lines
    assert (row["change"], row["key"], row["value_b"]) == ("only in B", "another", {"day": 9})
    assert row["valid_from_ms"] == 1_373_300_000_000
    assert counted.lines == [{"only_a": 0, "only_b": 1, "differs": 0}]


def test_diff_that_cannot_be_told_is_exit_code_2(state: Path, run: Run) -> None:
    """1 would say that something differs."""
    missing = run("diff", state, state / "nowhere")
    beyond = run("diff", state, state, "--offset-b", "77")
    (state / "counts" / "0" / "changelog" / f"{0:020}.log").write_bytes(b"garbage")
    garbage = run("diff", state, state)

    assert [each.code for each in (missing, beyond, garbage)] == [2, 2, 2]
    assert all(each.err.count("\n") == 1 for each in (missing, beyond, garbage))


def test_du_accounts_for_every_byte(state: Path, succeed: Run) -> None:
    """The rows add up to the files."""
    (state / "stray").write_bytes(b"x" * 100)
    rows = succeed("du", state, "--json").lines
    files = sum(file.stat().st_size for file in state.rglob("*") if file.is_file())

    assert sum(row["bytes"] for row in rows) == files
    assert rows[0]["store"] == "counts"
    assert min(rows[0][f"{what}_bytes"] for what in ("engine", "changelog", "snapshots")) > 0
    assert rows[-1]["store"] is None
    assert rows[-1]["other_bytes"] >= 100


def test_engines_elsewhere_are_looked_into(
    state: Path, tmp_path: Path, succeed: Run, run: Run
) -> None:
    """By info and verify, as restore has put them there; the root's own engine is left alone."""
    local = tmp_path / "local"
    succeed("restore", state, "--local", local, "--backend", "memory")
    succeed("restore", state, "--local", local, "--backend", "sqlite", "--store", "counts")
    facts = succeed("info", state / "counts" / "0", "--local", local, "--engine", "--json").document
    checks = succeed("verify", state, "--local", local, "--json").document["checks"]
    (local / "counts" / "0" / "engine.json").write_text("{")
    damaged = run("verify", state, "--local", local, "--json")

    assert facts["lag"] == 0
    assert str(local / "counts" / "0" / "engine") in {check["path"] for check in checks}
    assert damaged.code == 1
    assert succeed("verify", state, "--json").document["ok"]


def test_changes_of_a_key_and_the_last_ones(state: Path, root: Path, succeed: Run) -> None:
    """A key is as the serde reads it; a tail is of each partition."""
    of_key = succeed("changelog", state, "--key", "k4", "--json").lines
    last = succeed("changelog", state, "--tail", "3", "--json").lines
    both = succeed("changelog", state, "--key", "k4", "--tail", "1", "--json").lines
    each = succeed("changelog", root / "planes", "--tail", "2", "--json").lines
    alone = succeed("changelog", state / "counts/0/changelog", "--key", "k4", "--json").lines

    assert [(row["offset"], row["value"]) for row in of_key] == [(4, 4), (14, -4)]
    assert [row["offset"] for row in last] == [17, 18, 19]
    assert both == of_key[1:]
    assert [row["partition"] for row in each] == [0, 0, 1, 1, 2, 2]
    assert [row["offset"] for row in alone] == [4, 14]


def test_changes_since_a_time_are_by_the_writers_clock(state: Path, succeed: Run) -> None:
    """All of them are of the last hour, and none is from tomorrow."""
    assert len(succeed("changelog", state, "--since", "1h", "--limit", "0", "--json").lines) == 20
    assert succeed("changelog", state, "--until", "1h", "--json").out == ""
    assert succeed("changelog", state, "--since", "now", "--json").out == ""


def test_following_prints_what_is_written_meanwhile(state: Path, succeed: Run) -> None:
    """Nothing is missed between the end of the first reading and the first look."""
    written = threading.Event()

    def write() -> None:
        with open_logged_store(state, "counts", 0) as counts:
            for number in range(3):
                counts.store.put("new", number)
                counts.commit()
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    # It ends with its sixth row, which is the writer's last one.
    found = succeed("changelog", state, "--from-offset", "17", "-f", "--limit", "6", "--json")
    writer.join()

    assert written.is_set()
    assert [row["offset"] for row in found.lines] == [17, 18, 19, 20, 21, 22]


def test_history_takes_root_store_and_key(root: Path, succeed: Run) -> None:
    """As well as the store in the path or in an option."""
    three = succeed("history", root, "planes", "N001ü", "--json").lines

    assert three
    assert three == succeed("history", root / "planes", "N001ü", "--json").lines


def test_rows_can_be_csv_with_the_fields_of_json(root: Path, state: Path, succeed: Run) -> None:
    """Quoted as RFC 4180 has it; lists and objects are JSON in a cell."""
    for arguments in (
        ("scan", root / "planes"),
        ("history", root, "planes", "N001ü"),
        ("changelog", state),
        ("lag", state),
        ("du", state),
        ("diff", state, state),
    ):
        lines = succeed(*arguments, "--json").lines
        rows = list(csv.DictReader(io.StringIO(succeed(*arguments, "--csv").out)))

        assert len(rows) == len(lines)
        for row, line in zip(rows, lines, strict=True):
            assert list(row) == list(line)
            assert row["partition"] == str("" if line["partition"] is None else line["partition"])
    (first,) = csv.DictReader(
        io.StringIO(succeed("scan", root / "planes", "--csv", "--limit", "1").out)
    )
    assert first["value"].startswith('{"day":')


@pytest.fixture
def read_only(state: Path) -> Iterator[Path]:
    """Take the right to write away from the root and all that is in it."""
    places = [state, *(each for each in state.rglob("*") if each.is_dir())]
    for place in places:
        place.chmod(0o555)
    yield state
    for place in places:
        place.chmod(0o755)


def test_a_root_that_cannot_be_written_is_looked_into(read_only: Path, succeed: Run) -> None:
    """None of these needs to write, as long as no engine is opened."""
    assert succeed("lag", read_only, "--no-engine", "--json").lines[0]["end_offset"] == 20
    assert succeed("du", read_only, "--json").lines
    assert succeed("diff", read_only, read_only).out == ""
    assert succeed("top", read_only).out
