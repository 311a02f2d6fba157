"""Logs of topics that several processes append to and read."""

from pathlib import Path

import pytest

from statestores.changelog import FileChangelog
from statestores.changelog.encoded_rows import encoded_rows
from statestores.changelog.rows import RECORDS
from statestores.changelog.segments.memory_segment import DEFAULT_COMPRESSION
from statestores.errors import (
    StoreClosedError,
    StoreLockedError,
)
from statestores.processing import LocalTopics, Record, Topic
from statestores.processing.local import partition_log
from statestores.processing.local.sharing.patience import Patience
from statestores.processing.record_rows import record_batch
from statestores.spi import Durability, TopicPartition

_ROUNDS = 30

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.mark.spec("PRC-70")
def test_two_writers_append_in_turn(tmp_path: Path) -> None:
    """Each sees what the other has appended, across segments; an offset is given once."""
    patience = Patience(lambda: True)
    topic = Topic("bytes")
    with (
        LocalTopics(tmp_path, patience=patience) as one,
        LocalTopics(tmp_path, patience=patience) as two,
    ):
        for turn in range(_ROUNDS):
            writer = (one, two)[turn % 2].topic(topic)
            writer.append_bytes([Record(None, b"%d" % turn, turn)])
            if turn % 7 == 0:  # another segment
                with (log := writer.logs[0])._lock, log._writing(None) as changelog:
                    changelog.seal()

            assert one.topic(topic).end_offset() == two.topic(topic).end_offset() == turn + 1
        mark = TopicPartition("@task/state/0", 0)
        first = next(one.topic(topic).logs[0].frames(0, 1)).batch
        rows = encoded_rows(RECORDS, first, DEFAULT_COMPRESSION)
        assert one.topic(topic).logs[0].append_marked(rows, mark, 1)
        assert not two.topic(topic).logs[0].append_marked(rows, mark, 1)
        assert two.topic(topic).logs[0].marked(mark) == 1
        values = [each.record.value for each in two.topic(topic).read()]

    assert values == [b"%d" % turn for turn in range(_ROUNDS)] + [b"0"]


@pytest.mark.spec("PRC-70")
def test_a_torn_append_of_another_writer_is_cut(tmp_path: Path) -> None:
    """What a process that was killed has left of a frame is in nobody's way."""
    patience = Patience(lambda: True)
    topic = Topic("bytes")
    with (
        LocalTopics(tmp_path, patience=patience) as one,
        LocalTopics(tmp_path, patience=patience) as two,
    ):
        one.topic(topic).append_bytes([Record(None, b"0", 0)])
        two.topic(topic).append_bytes([Record(None, b"1", 1)])
        (segment,) = (tmp_path / "bytes" / "0").glob("*.log")
        whole = segment.read_bytes()
        two.topic(topic).append_bytes([Record(None, b"torn", 2)])
        torn = segment.read_bytes()[: len(whole) + 40]
        segment.write_bytes(torn)
        one.topic(topic).append_bytes([Record(None, b"2", 2)])
        values = [each.record.value for each in two.topic(topic).read()]

    assert values == [b"0", b"1", b"2"]


@pytest.mark.spec("PRC-70")
@pytest.mark.parametrize("durability", list(Durability))
def test_what_another_writer_has_appended_is_durable_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability
) -> None:
    """Once for each time that there is more; with `PROCESS_CRASH` nobody waits for the disk."""
    waited: list[str] = []
    monkeypatch.setattr(partition_log, "_wait_for_disk", lambda path: waited.append(path.name))
    patience, topic = Patience(lambda: True), Topic("bytes")
    with (
        LocalTopics(tmp_path, patience=patience, durability=durability) as one,
        LocalTopics(tmp_path, patience=patience, durability=durability) as two,
    ):
        for turn in range(2):
            one.topic(topic).append_bytes([Record(None, b"", turn)])
            for _ in range(3):
                assert two.topic(topic).end_offset() == turn + 1

    assert len(waited) == (2 if durability is Durability.POWER_LOSS else 0)


def test_a_paused_log_takes_no_appends(tmp_path: Path) -> None:
    """Whoever pauses it has to resume it; both may be done again."""
    rows = record_batch([Record(None, b"", 1)])
    with FileChangelog.create(tmp_path, RECORDS) as log:
        log.pause()
        log.pause()
        with pytest.raises(StoreClosedError, match="paused"):
            log.append_batch(rows)
        with FileChangelog.open(tmp_path, RECORDS) as other:
            other.append_batch(rows)
            with pytest.raises(StoreLockedError):
                log.resume()
        log.resume()
        log.resume()

        assert log.append_batch(rows).first == 1
        log.pause()
        with FileChangelog.open(tmp_path, RECORDS) as other:
            other.seal()  # the segment that it knows is as it was, and no longer the last
        log.resume()

        assert log.append_batch(rows).first == 2
        assert [frame.base_offset for frame in log.read()] == [0, 1, 2]
        assert [each.first_offset for each in log.segments()] == [0, 2]
