"""Topics and a recorded commit as an earlier release has left them."""

import shutil
from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import StoreCorruptedError
from statestores.processing import LocalTopics, Record, Topic, Topology, run

GOLDEN = Path(__file__).parents[1] / "golden"

LINES = Topic("lines", key=ss.utf8, value=ss.utf8, partitions=1)
OUT = Topic("out", key=ss.utf8, value=ss.int64, partitions=1)


def _run(place: Path) -> None:
    counting = Topology("counting")
    store = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    counting.stream(LINES).group_by_key().count(store).to(OUT)
    run(
        counting,
        state=place / "state",
        topics=place / "topics",
        until="idle",
        backend="memory",
    )


@pytest.mark.spec("TSK-10", "TSK-14")
def test_damage_to_what_a_directory_emits_is_refused(tmp_path: Path) -> None:
    """Of format 3: a flipped bit, a file that is gone, and one too many; whole, it is finished."""
    shutil.copytree(GOLDEN / "format-3", tmp_path, dirs_exist_ok=True)
    outputs = tmp_path / "state" / "@tasks" / "0_0" / "commit" / "@outputs"
    (file,) = outputs.glob("*.log")
    whole = file.read_bytes()
    flipped = [bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]) for at in range(0, 900, 90)]
    for damage in (*flipped, whole[:-8], whole + whole, b""):
        file.write_bytes(damage)
        with pytest.raises(StoreCorruptedError, match="@outputs"):
            _run(tmp_path)
    file.write_bytes(whole)
    (outputs / "stray").touch()
    with pytest.raises(StoreCorruptedError, match="@outputs"):
        _run(tmp_path)
    (outputs / "stray").unlink()
    file.rename(tmp_path / "away")
    with pytest.raises(StoreCorruptedError, match="@outputs"):
        _run(tmp_path)
    (tmp_path / "away").rename(file)

    _run(tmp_path)
    assert not outputs.parent.exists()


@pytest.mark.spec("PRC-48", "PRC-49", "PRC-50", "TSK-10", "TSK-14")
@pytest.mark.parametrize("written", ["format-3", "format-4"])
@pytest.mark.usefixtures("no_descriptor_leaks")
def test_a_golden_state_opens_and_its_commit_is_finished(tmp_path: Path, written: str) -> None:
    """Records come back as they were, and what the commit emits is there once."""
    shutil.copytree(GOLDEN / written, tmp_path, dirs_exist_ok=True)
    with LocalTopics(tmp_path / "topics") as topics:
        records = [each.record for each in topics.topic(LINES).read()]
    for _ in range(2):
        _run(tmp_path)
    with LocalTopics(tmp_path / "topics") as topics:
        results = [(each.offset, each.record) for each in topics.topic(OUT).read()]

    headers = (("h", b"\0"), ("h", b""))
    assert records == [
        Record("a", "x", 1, headers),
        Record(None, "y", 2),
        Record("b", "", 3),
        Record("a", "z", 4),
        Record("b", None, 5),
    ]
    assert results == [
        (0, Record("a", 1, 1, headers)),
        (1, Record("b", 1, 3)),
        (2, Record("a", 2, 4)),
    ]
