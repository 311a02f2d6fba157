"""A migration that is killed between any two steps is finished by doing it again."""

import signal
from pathlib import Path

import pytest
from forked_programs import run

import statestores as ss
from statestores.migration import (
    KafkaStateDirectory,
    import_kafka_state,
    import_legacy_offsets,
    plan_import,
    read_offsets_file,
    write_offsets_file,
)

CHANGELOG = ss.TopicPartition("app-counts-changelog", 0)
INPUT = ss.TopicPartition("input", 0)

KILLED = """
import os, signal, sys
from statestores import failpoints

failpoints.arm(sys.argv[1], lambda: os.kill(os.getpid(), signal.SIGKILL), at=int(sys.argv[2]))
"""

IMPORT = (
    KILLED
    + """
from statestores.migration import KafkaStateDirectory, import_kafka_state, plan_import

with KafkaStateDirectory(sys.argv[3]) as source:
    plans = [plan_import(source, "table")]
    import_kafka_state(source, sys.argv[4], plans, backend="sqlite")
"""
)

IMPORT_OFFSETS = (
    KILLED
    + """
import statestores as ss
from statestores.migration import import_legacy_offsets

with ss.open_store(sys.argv[4], ss.KeyValue("counts"), backend="sqlite") as store:
    import_legacy_offsets(store, sys.argv[3], [ss.TopicPartition("app-counts-changelog", 0)])
"""
)


def kill_at(script: str, failpoint: str, at: int, *paths: Path) -> None:
    """Run *script* in a process that dies at the failpoint."""
    done = run(script, failpoint, at, *paths)

    assert done.returncode == -signal.SIGKILL


@pytest.mark.spec("MIG-14")
@pytest.mark.parametrize(
    ("failpoint", "at", "complete"),
    [
        ("logged.appended", 1, 0),
        ("snapshot.durable", 2, 1),
        # The seventh small file is the state root's own, which names the store by then.
        ("json.renamed", 7, 0),
    ],
)
def test_a_killed_import_is_repeated(
    partitioned: Path, tmp_path: Path, failpoint: str, at: int, complete: int
) -> None:
    """Partitions that are there are whole, and the rest follows."""
    root = tmp_path / "root"
    kill_at(IMPORT, failpoint, at, partitioned, root)
    present = sorted(path.name for path in (root / "table").glob("*"))

    assert present == ["0", "1", "2"][:complete]
    assert ("table" in ss.StateRoot.open(root).stores) is (failpoint != "logged.appended")
    with KafkaStateDirectory(partitioned) as source:
        plan = plan_import(source, "table")
        import_kafka_state(source, root, [plan], backend="sqlite", skip_existing=True)
    keys: set[bytes] = set()
    for partition in range(3):
        with ss.open_logged_store(root, "table", partition, backend="sqlite") as logged:
            keys |= {key for key, _ in logged.store.range()}
            changelog = ss.TopicPartition("app-table-changelog", partition)
            assert logged.position[changelog] == partition + 5
    assert len(keys) == 60


@pytest.mark.spec("MIG-4")
@pytest.mark.parametrize(
    ("failpoint", "committed"), [("commit.apply.before", None), ("commit.apply.after", 41)]
)
def test_a_killed_import_of_offsets_is_repeated(
    tmp_path: Path, failpoint: str, committed: int | None
) -> None:
    """Before the commit nothing has happened; after it, the files say what the store has."""
    task = tmp_path / "0_0"
    task.mkdir()
    write_offsets_file(task / ".checkpoint", {CHANGELOG: 41})
    write_offsets_file(task / "counts.position", {INPUT: 7})
    specification = ss.KeyValue("counts")
    with ss.open_store(tmp_path / "store", specification, backend="sqlite") as store:
        store.put(b"k", b"v")
        store.commit({})
    kill_at(IMPORT_OFFSETS, failpoint, 1, task, tmp_path / "store")

    assert read_offsets_file(task / ".checkpoint") == {CHANGELOG: 41}
    assert read_offsets_file(task / "counts.position") == {INPUT: 7}
    with ss.open_store(tmp_path / "store", specification, backend="sqlite") as store:
        assert store.committed_offset(CHANGELOG) == committed
        import_legacy_offsets(store, task, [CHANGELOG])
        assert store.committed_offset(CHANGELOG) == 41
        assert store.position == {INPUT: 7}
    assert list(task.iterdir()) == []
