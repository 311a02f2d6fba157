"""The commands get, scan and history."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import statestores as ss
from statestores.arrow import list_snapshots
from statestores.arrow.keys.key_selection import KeySelection
from statestores.cli.store_views import views_at
from statestores.logged_store import open_logged_store
from statestores.partitioning import murmur2_partitioner
from statestores.reading.locations import locate

Run: TypeAlias = Callable[..., Any]
PartitionOf: TypeAlias = Callable[[str], int]

T0 = 1_372_896_000_000
"""4 July 2013, midnight in UTC."""


def test_get_prints_the_latest_value(root: Path, succeed: Run) -> None:
    """The key finds its partition by the store's partitioner, and its value the serde."""
    outcome = succeed("get", root, "N002ü", "--store", "planes")

    assert outcome.out == '{"day":4,"plane":2}\n'
    assert outcome.err == "valid from 2013-07-08T00:00:00.000Z until now\n"


@pytest.mark.parametrize("as_of", ["2013-07-04T12:00", "2013-07-04T12:00:00Z", T0 + 43_200_000])
def test_get_as_of_takes_milliseconds_and_iso_times(
    root: Path, succeed: Run, partition_of: PartitionOf, as_of: object
) -> None:
    """A time without an offset is in UTC, and the three are the same."""
    outcome = succeed("get", root, "N002ü", "--store", "planes", "--as-of", as_of, "--json")

    assert outcome.document == {
        "key": "N002ü",
        "found": True,
        "value": {"day": 0, "plane": 2},
        "partition": partition_of("N002ü"),
        "valid_from_ms": T0,
        "valid_to_ms": T0 + ss.DAY,
    }


def test_a_key_without_a_value_is_exit_code_1(root: Path, run: Run) -> None:
    """Nothing is printed that a script could take for a value."""
    outcome = run("get", root, "nobody", "--store", "planes")

    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "there is no value of 'nobody'\n"


def test_a_missing_key_is_a_document_as_well(root: Path, run: Run) -> None:
    """JSON says that it was not found, and so does the exit code."""
    outcome = run("get", root, "99", "--store", "counts", "--json")

    assert outcome.code == 1
    assert outcome.document == {"key": 99, "found": False, "value": None, "partition": 0}


def test_keys_are_also_given_as_bytes(root: Path, succeed: Run) -> None:
    """``hex:`` and ``--key-hex`` leave the serde out."""
    encoded = ss.int64_sorted.encode(7).hex()
    plain = succeed("get", root, "7", "--store", "counts").out

    assert succeed("get", root, f"hex:{encoded}", "--store", "counts").out == plain
    assert succeed("get", root, encoded, "--key-hex", "--store", "counts").out == plain
    assert succeed("get", "--store", "counts", root, "--", "-5").out == "\\xff-5\\x1b[31m\n"


def test_bytes_that_are_no_text_are_escaped_for_people_and_exact_in_json(
    root: Path, succeed: Run
) -> None:
    """Neither can a stored escape sequence reach the terminal."""
    arguments = ("scan", root, "--store", "counts", "--from", "44")

    assert succeed(*arguments).out == "key\tvalue\tpartition\n44\t\\xff44\\x1b[31m\t0\n"
    assert succeed(*arguments, "--json").lines == [
        {"key": 44, "value": {"hex": b"\xff44\x1b[31m".hex()}, "partition": 0}
    ]


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_merges_the_partitions_in_key_order(root: Path, succeed: Run, reverse: bool) -> None:
    """The partitions of a store look like one store."""
    flags = ["--reverse"] if reverse else []
    found = succeed("scan", root / "planes", "--json", "--limit", 0, *flags).lines
    expected = [f"N{number:03d}ü" for number in range(20) if number % 4]

    assert [row["key"] for row in found] == sorted(expected, reverse=reverse)
    assert {row["partition"] for row in found} == {0, 1, 2}


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_bounded_and_says_so(root: Path, succeed: Run, reverse: bool) -> None:
    """A store of any size gives a screenful, and a line that says how to see more."""
    flags = ["--reverse"] if reverse else []
    outcome = succeed("scan", root, "--store", "counts", "--json", *flags)
    first = [row["key"] for row in outcome.lines]

    assert first == (list(range(44, 24, -1)) if reverse else list(range(-5, 15)))
    assert outcome.err == "the first 20; there are more: --limit N, or --limit 0 for all\n"


def test_a_scan_that_just_fits_does_not_promise_more(root: Path, succeed: Run) -> None:
    """Fifty keys with a limit of fifty are all of them."""
    assert succeed("scan", root, "--store", "counts", "--limit", 50).err == ""


def test_scan_takes_bounds_and_prefixes(root: Path, succeed: Run) -> None:
    """Bounds are inclusive, and a prefix is one of bytes."""

    def keys(*options: str) -> list[str]:
        rows = succeed("scan", root / "planes", "--json", "--as-of", T0, *options).lines
        return [row["key"] for row in rows]

    assert keys("--from", "N013ü", "--to", "N017ü") == ["N013ü", "N014ü", "N015ü", "N017ü"]
    assert keys("--prefix", "N00", "--to", "N002ü") == ["N000ü", "N001ü", "N002ü"]
    assert keys("--prefix", "hex:" + b"N019".hex(), "--reverse") == ["N019ü"]
    assert keys("--prefix", "M") == []


def test_history_shows_versions_and_deletions_as_gaps(root: Path, succeed: Run) -> None:
    """A plane that was deleted on day three has a hole there."""
    rows = succeed("history", root, "N005ü", "--store", "planes", "--json").lines
    days = [(row["value"]["day"], row["valid_from_ms"], row["valid_to_ms"]) for row in rows]

    assert days == [
        (0, T0, T0 + ss.DAY),
        (1, T0 + ss.DAY, T0 + 2 * ss.DAY),
        (2, T0 + 2 * ss.DAY, T0 + 3 * ss.DAY),
        (4, T0 + 4 * ss.DAY, None),
    ]


def test_history_takes_times_and_a_direction(root: Path, succeed: Run) -> None:
    """A version that was valid within the times belongs to them, whenever it began."""
    rows = succeed(
        *("history", root, "N005ü", "--store", "planes", "--json", "--reverse"),
        *("--from", "2013-07-05T12:00", "--to", "2013-07-06"),
    ).lines

    assert [row["value"]["day"] for row in rows] == [2, 1]


def test_history_of_a_key_value_store_is_refused(root: Path, run: Run) -> None:
    """It has none, and says what to use."""
    outcome = run("history", root, "5", "--store", "counts")

    assert outcome.code == 2
    assert "has no history; read what it holds now" in outcome.err


def test_raw_leaves_the_serdes_out(root: Path, succeed: Run) -> None:
    """What the serde would print anew is printed as it is stored."""
    row = succeed("scan", root / "planes", "--raw", "--json", "--limit", 1).lines[0]

    assert row["value"] == '{"day":4,"plane":1}'


def test_a_partition_is_read_by_itself(root: Path, succeed: Run, partition_of: PartitionOf) -> None:
    """Its directory is a path like any."""
    number = partition_of("N002ü")
    rows = succeed("scan", root / "planes" / str(number), "--json", "--limit", 0).lines

    assert {row["partition"] for row in rows} == {number}


def test_a_snapshot_is_read_by_itself(root: Path, succeed: Run, partition_of: PartitionOf) -> None:
    """It answers as the store did when it was written."""
    succeed("snapshot", root, "--store", "planes")
    number = partition_of("N005ü")
    (path,) = list_snapshots(root / "planes" / str(number) / "snapshots").values()

    assert succeed("get", path, "N005ü").out == '{"day":4,"plane":5}\n'
    assert succeed("history", path, "N005ü").out.splitlines()[1:] == [
        line.rsplit("\t", 1)[0] + "\t"
        for line in succeed("history", root / "planes", "N005ü").out.splitlines()[1:]
    ]


def test_a_store_without_a_changelog_is_read_through_its_engine(bare: Path, succeed: Run) -> None:
    """Every persistent backend, forwards, backwards and by prefix."""
    keys = [row["key"] for row in succeed("scan", bare, "--json").lines]
    backwards = [row["key"] for row in succeed("scan", bare, "--json", "--reverse").lines]
    prefixed = succeed("scan", bare, "--json", "--prefix", "a", "--reverse").lines

    assert keys == ["a", {"hex": "6100ff"}, "b", "c", "ключ"]
    assert backwards == keys[::-1]
    assert [row["key"] for row in prefixed] == [{"hex": "6100ff"}, "a"]
    assert succeed("get", bare, "ключ").out == "значение\\n\n"
    assert succeed("get", bare, "hex:6100ff").out == "value of a\\x00\\xff\n"


def test_a_versioned_store_without_a_changelog_answers_alike(
    tmp_path: Path, persistent: str, succeed: Run
) -> None:
    """As of, history and scans come from the engine."""
    path = tmp_path / "rates"
    specification = ss.Versioned("rates", history_retention_ms=1_000, key=ss.utf8, value=ss.utf8)
    with ss.open_store(path, specification, backend=persistent) as store:
        for time_ms, value in ((100, "a"), (200, None), (300, "b")):
            store.put("EUR", value, timestamp_ms=time_ms)
        store.commit({})

    assert succeed("get", path, "EUR", "--as-of", 150).out == "a\n"
    assert succeed("scan", path, "--as-of", 250).out == ""
    history = succeed("history", path, "EUR", "--json").lines
    assert [(row["value"], row["valid_to_ms"]) for row in history] == [("a", 200), ("b", None)]


def test_a_partition_is_read_while_its_owner_writes_it(
    kept: Path, succeed: Run, partition_of: PartitionOf
) -> None:
    """No lock is taken, and the last commit is seen, the pending write not."""
    number = partition_of("N001ü")
    with open_logged_store(kept, "planes", number) as owner:
        owner.store.put("N001ü", {"day": 9}, timestamp_ms=T0 + 9 * ss.DAY)
        owner.commit()
        owner.store.put("N001ü", {"day": 10}, timestamp_ms=T0 + 10 * ss.DAY)

        assert succeed("get", kept, "N001ü").out == '{"day":9}\n'
        assert succeed("scan", kept, "--prefix", "N001", "--json").lines[0]["value"] == {"day": 9}
        assert succeed("info", kept, "--json").document["stores"][0]["store"]["name"] == "planes"


def test_a_store_that_is_open_elsewhere_is_named_with_its_owner(bare: Path, run: Run) -> None:
    """Only an engine can read it, and that is locked."""
    with ss.open_existing(bare):
        outcome = run("scan", bare)

    assert outcome.code == 1
    assert outcome.out == ""
    assert "is open in process" in outcome.err
    assert outcome.err.count("\n") == 1


def test_an_empty_store_has_no_keys(tmp_path: Path, succeed: Run) -> None:
    """Neither before its first write nor before its first opening."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts"), partitions=2)

    outcome = succeed("scan", state.path)

    assert (outcome.out, outcome.err) == ("", "no keys\n")
    assert succeed("scan", state.path, "--json").out == ""


@pytest.mark.parametrize(
    ("serde", "key", "text"),
    [
        (ss.utf8, "hex:00", "text:hex:00"),
        (ss.int64, -3, "-3"),
        (ss.float64, 1.5, "1.5"),
        (ss.json, {"a": [1]}, '{"a": [1]}'),
        (ss.msgpack, ["a", 1], '["a", 1]'),
    ],
)
def test_each_serde_reads_its_keys_from_text(
    tmp_path: Path, succeed: Run, serde: Any, key: object, text: str
) -> None:
    """What a scan prints can be asked for."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("s", key=serde), partitions=1)
    with open_logged_store(state, "s", 0, backend="memory") as store:
        store.store.put(key, b"there")
        store.commit()

    assert succeed("get", "--json", state.path, "--", text).document["value"] == "there"


def test_partitions_are_read_as_of_one_moment(root: Path, tmp_path: Path, succeed: Run) -> None:
    """A write to all of them that comes between the first and the last is in none."""
    file = tmp_path / "planes.arrow"
    succeed("export", root / "planes", file, "--as-of", T0)
    with views_at(locate(root / "planes"), None, None).open_all() as views:
        before = [sum(1 for _ in view.records(KeySelection())) for view in views]
        succeed("import", file, root / "planes", "--replace")
        after = [sum(1 for _ in view.records(KeySelection())) for view in views]
        with views[0].content() as content:
            rows = sum(batch.num_rows for batch in content.batches)

    assert after == before
    assert rows == 15


@pytest.mark.spec("PAR-10", "QRY-10", "QRY-11")
def test_a_key_in_another_partition_is_never_said_to_be_absent(tmp_path: Path, run: Run) -> None:
    """``get`` said "there is no value" of a key that ``scan`` of the same store showed.

    Another partitioner had placed it. Now a miss is asked of the other partitions, and the error
    names the one that has the key; ``--partition`` reads it there.
    """
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(
        ss.Versioned("rates", history_retention_ms=1_000, key=ss.utf8, value=ss.int64), partitions=3
    )
    root.add_store(
        ss.Window("hits", retention_ms=100, window_size_ms=10, key=ss.utf8, value=ss.int64),
        partitions=3,
    )
    home = murmur2_partitioner.partition(b"word", 3)
    place = (home + 1) % 3
    with open_logged_store(root, "rates", place, backend="memory") as rates:
        rates.store.put("word", 5, timestamp_ms=1)
        rates.commit()
    with open_logged_store(root, "hits", place, backend="memory") as hits:
        hits.store.put("word", 6, window_start_ms=10)
        hits.commit()
    for command in ("get", "history"):
        call = (command, root.path / "rates", "word")
        outcome = run(*call)
        assert (outcome.code, outcome.out) == (1, "")
        assert f"the key b'word' is in partition {place} of 'rates'" in outcome.err
        assert f"looks for it in {home}" in outcome.err
        assert f"or read it with --partition {place}" in outcome.err
        assert run(*call, "--json").out == ""
        assert "5" in run(*call, "--partition", place).out
        assert run(*call, "--partition", home).code == 1
        absent = run(command, root.path / "rates", "nobody")
        assert (absent.code, absent.err[:3]) == (1, "the" if command == "get" else "no ")
    outcome = run("get", root.path / "hits", "word")
    assert (outcome.code, outcome.out) == (1, "")
    assert f"--partition {place}" in outcome.err
    assert run("get", root.path / "hits", "word", "--partition", place).code == 0
    outcome = run("get", root.path / "hits", "word", "--partition", 3)
    assert (outcome.code, outcome.err) == (
        2,
        "statestores: --partition 3 is not here; here: 0, 1, 2\n",
    )
    outcome = run("get", root.path / "rates" / str(place), "word", "--partition", home)
    assert (outcome.code, f"here: {place}" in outcome.err) == (2, True)
