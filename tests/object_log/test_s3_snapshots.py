"""Snapshots on a real S3 server: kills between two puts, faults on the way, and the commands."""

import json
import signal
from pathlib import Path
from typing import Any

import forked_programs
import pytest
from command_line import invoke
from s3 import Bucket, FaultyProxy

import statestores as ss
from statestores.errors import StateStoreError
from statestores.reading.partition_places import ObjectPartition, snapshots_of
from statestores.reading.partition_reader import PartitionReader
from statestores.upkeep import FileSnapshot, ObjectVacuum

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
WORDS = ss.TopicPartition("words", 0)
_PROGRAM = Path(__file__).parent / "kit" / "snapshot_writer.py"


def make(bucket: Bucket) -> ss.StateRoot:
    """Make a state root with the store ``counts``."""
    root = ss.StateRoot.create(bucket.root, storage_options=bucket.options)
    root.add_store(COUNTS, partitions=1)
    return root


def owner_of(root: ss.StateRoot, directory: Path) -> Any:
    """Take the only partition of ``counts``."""
    return ss.open_logged_store(root, "counts", 0, directory=directory, backend="sqlite")


def put(counts: Any, **rows: int) -> None:
    """Commit each of *rows*."""
    for key, value in rows.items():
        counts.store.put(key, value)
        counts.commit({WORDS: value})


def place_in(root: ss.StateRoot) -> ObjectPartition:
    """Return the only partition."""
    return ObjectPartition(root.object_log("counts"), 0)


def content(root: ss.StateRoot) -> dict[str, int]:
    """Return the rows as readers see them."""
    reader = PartitionReader(place_in(root), COUNTS)
    return {row["key"]: row["value"] for batch in reader.rows() for row in batch.to_pylist()}


def offsets(root: ss.StateRoot) -> list[int]:
    """Return the offsets of the snapshots that count."""
    return [each.offset for each in snapshots_of(place_in(root)).listed()]


@pytest.mark.long
@pytest.mark.spec("OBJ-37", "OBJ-38", "OBJ-39")
@pytest.mark.parametrize(
    ("do", "failpoint", "left"),
    [
        ("write", "objects.snapshot.put", [0]),
        ("write", "objects.snapshot.complete", [0]),
        ("write", "objects.snapshot.published", [0, 2]),
        ("remove", "objects.snapshot.unpublished", [2]),
        ("remove", "objects.snapshot.voided", [2]),
    ],
)
def test_kills(bucket: Bucket, tmp_path: Path, do: str, failpoint: str, left: list[int]) -> None:
    """A snapshot is there or is not, what is left goes with a vacuum, and nothing is lost."""
    root = make(bucket)
    snapshots = snapshots_of(place_in(root))
    with owner_of(root, tmp_path / "owner") as counts:
        put(counts, a=1)
        counts.snapshot()
        put(counts, b=2, c=3)
        if do == "remove":
            counts.snapshot()
            half = f"{snapshots.prefix}{1:020d}-abc/data-0000.arrow"
            root.object_log("counts").storage.create(half, b"half of one")
        options = {name: text for name, text in bucket.options.items() if isinstance(text, str)}
        options["client_options"] = bucket.options["client_options"]
        case = {"url": bucket.root, "options": options, "do": do, "failpoint": failpoint}
        killed = forked_programs.run(_PROGRAM, json.dumps(case))
        assert killed.returncode == -signal.SIGKILL, killed.stderr

        assert offsets(root) == left
        put(counts, d=4)
    expected = {"a": 1, "b": 2, "c": 3, "d": 4}
    assert content(root) == expected
    with owner_of(root, tmp_path / "new") as counts:
        assert dict(counts.store.range()) == expected
        assert counts.restored.snapshot_offset == left[-1]
        assert counts.snapshot().written
        vacuum = ObjectVacuum(
            log=root.object_log("counts"), keep_snapshots=1, abandoned_after_ms=-60_000
        )
        removed = [vacuum() for _ in range(3)]
    assert (removed[-1].objects, removed[-1].snapshots) == (0, (0,))
    assert len(list(root.object_log("counts").storage.list(snapshots.prefix))) == 2
    assert offsets(root) == [3]
    assert content(root) == expected


@pytest.mark.spec("OBJ-5", "OBJ-37")
@pytest.mark.parametrize("fault", ["refuse", "forget", "hang up", "truncate"])
def test_a_way_that_fails_now_and_then(
    bucket: Bucket, proxy: FaultyProxy, tmp_path: Path, fault: str
) -> None:
    """A snapshot is written or an error is raised, and what can be listed is whole."""
    root = make(bucket)
    with owner_of(root, tmp_path / "owner") as counts:
        put(counts, **{f"k{number}": number for number in range(5)})
    through = bucket.through(proxy)
    state = ss.StateRoot.open(through.root, storage_options=through.options)
    asked = 0

    def now_and_then(method: str, path: str) -> str | None:
        nonlocal asked
        asked += 1
        return fault if asked % 3 == 0 else None

    proxy.fault = now_and_then
    for _ in range(2):
        try:
            written = FileSnapshot(directory=place_in(state), number=0, specification=COUNTS)()
        except StateStoreError:
            continue
        assert written is not None
        assert written.offset == 4
    for each in snapshots_of(place_in(root)).listed():
        each.read().verify()
    assert fault != "forget" or offsets(root)  # what was put and denied is read back
    assert content(root) == {f"k{number}": number for number in range(5)}


@pytest.mark.spec("OBJ-38")
def test_a_snapshot_saves_the_way_through_the_log(
    bucket: Bucket, proxy: FaultyProxy, tmp_path: Path
) -> None:
    """What it has is not asked for again: neither segments nor entries before it are read."""
    root = make(bucket)
    log = root.object_log("counts")
    with owner_of(root, tmp_path / "owner") as counts:
        put(counts, **{f"k{number}": number for number in range(20)})
        log.fold()
        counts.snapshot()
        put(counts, last=20)
    through = bucket.through(proxy)
    state = ss.StateRoot.open(through.root, storage_options=through.options)
    proxy.requests.clear()

    assert content(state)["last"] == 20

    gets = [path for method, path in proxy.requests if method == "GET"]
    assert sum("/own/" in path for path in gets) <= 3  # the last entry, and the end of the log
    assert not [path for path in gets if "/segments/" in path]
    assert sum("prefix=" in path for path in gets) == 1
    assert sum(path.endswith(".arrow") for path in gets) == 1


@pytest.mark.spec("OBJ-34", "OBJ-38", "SNP-26")
def test_the_commands(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They write, keep, show, measure, check and restore; the owner goes on."""
    for name in ("endpoint", "access_key_id", "secret_access_key", "region"):
        monkeypatch.setenv(f"AWS_{name.upper()}", bucket.options[name])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")

    def run(*words: str) -> str:
        outcome = invoke(*words, "--json")
        assert outcome.exit_code == 0, outcome.output
        return outcome.stdout

    def rows(*words: str) -> list[Any]:
        return [json.loads(line) for line in run(*words).splitlines()]

    root = make(bucket)
    assert invoke("snapshot", bucket.root).exit_code == 0
    with owner_of(root, tmp_path / "owner") as counts:
        for number in range(3):
            put(counts, **{f"k{number}": number})
            (written,) = rows("snapshot", bucket.root, "--keep", "2")
            assert (written["offset"], written["rows"]) == (number, number + 1)
            assert written["path"].startswith(bucket.root)
        put(counts, k9=9)
    (partition,) = json.loads(run("info", bucket.root))["partitions"]
    assert (partition["snapshot"], partition["snapshots"]) == (2, [1, 2])
    sizes, others = rows("du", bucket.root)
    assert sizes["snapshots_bytes"] > 0
    assert sizes["changelog_bytes"] > 0
    assert (others["partition"], sizes["partition"]) == (None, 0)
    assert invoke("du", bucket.root, "--local", "x").exit_code != 0
    assert invoke("doctor", bucket.root, "--local", "x").exit_code != 0
    assert json.loads(run("doctor", bucket.root)) == {"ok": True, "symptoms": []}
    checked = json.loads(run("verify", bucket.root))
    assert [each["check"] for each in checked["checks"]].count("snapshot") == 2
    (restored,) = rows("restore", bucket.root, "--local", str(tmp_path / "local"))
    assert (restored["snapshot_rows"], restored["changelog_rows"]) == (3, 1)
    run("compact", bucket.root)
    assert offsets(root) == [1, 2]
