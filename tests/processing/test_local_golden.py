"""Topics and a recorded commit as an earlier release has left them."""

import shutil
from pathlib import Path

import pytest

import statestores as ss
from statestores.processing import LocalTopics, Record, Topic, Topology, run

GOLDEN = Path(__file__).parent / "golden"

LINES = Topic("lines", key=ss.utf8, value=ss.utf8, partitions=1)
OUT = Topic("out", key=ss.utf8, value=ss.int64, partitions=1)


@pytest.mark.spec("PRC-48", "PRC-49", "PRC-50", "TSK-14")
@pytest.mark.usefixtures("no_descriptor_leaks")
def test_a_golden_state_opens_and_its_commit_is_finished(tmp_path: Path) -> None:
    """Records come back as they were, and what the commit emits is there once."""
    for name in ("state", "topics"):
        shutil.copytree(GOLDEN / name, tmp_path / name)
    counting = Topology("counting")
    store = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    counting.stream(LINES).group_by_key().count(store).to(OUT)
    with LocalTopics(tmp_path / "topics") as topics:
        records = [each.record for each in topics.topic(LINES).read()]
    for _ in range(2):
        run(
            counting,
            state=tmp_path / "state",
            topics=tmp_path / "topics",
            until="idle",
            backend="memory",
        )
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
