"""Changes as Kafka's records, and back; and what the clients are not to be told."""

import pytest

import statestores as ss
from statestores.errors import ChangelogCorruptedError, InvalidOptionError
from statestores.kafka.changelog_rows import ChangelogRow, RowFormat
from statestores.kafka.client_settings import ClientSettings
from statestores.processing.stores import stamped_window
from statestores.spi import Changes

_WINDOW = ss.Window("w", retention_ms=1_000_000, window_size_ms=10)
_KEY = b"k"


@pytest.mark.spec("KFK-10")
def test_changes_are_the_records_that_kafka_streams_writes() -> None:
    """Bytes as in Kafka's own stores; what has no time of its own has the task's."""
    start, end = bytes.fromhex("000000000000ea60"), bytes.fromhex("000000000000fde8")
    cases = [
        (ss.KeyValue("s"), Changes([_KEY, b"d"], [b"v", None]), [(_KEY, b"v", 7), (b"d", None, 7)]),
        (
            ss.TimestampedKeyValue("s"),
            Changes([_KEY, b"u", b"d"], [b"v", b"w", None], timestamps_ms=[1_000, None, None]),
            [(_KEY, b"v", 1_000), (b"u", b"w", -1), (b"d", None, 7)],
        ),
        (
            ss.Versioned("s", history_retention_ms=10),
            Changes([_KEY, _KEY], [b"v", None], [3, 5]),
            [(_KEY, b"v", 3), (_KEY, None, 5)],
        ),
        (
            _WINDOW,
            Changes([_KEY, b"d"], [b"v", None], [60_000, 60_000]),
            [(_KEY + start + bytes(4), b"v", 7), (b"d" + start + bytes(4), None, 7)],
        ),
        (
            stamped_window(_WINDOW),
            Changes([_KEY, b"d"], [bytes(7) + b"\x09v", None], [60_000, 60_000]),
            [(_KEY + start + bytes(4), b"v", 9), (b"d" + start + bytes(4), None, 7)],
        ),
        (
            ss.Window("s", retention_ms=99, window_size_ms=10, retain_duplicates=True),
            Changes([_KEY], [b"v"], [60_000], sequences=[5]),
            [(_KEY + start + bytes.fromhex("00000005"), b"v", 7)],
        ),
        (
            ss.Session("s", retention_ms=10),
            Changes([_KEY], [b"v"], [60_000], [65_000]),
            [(_KEY + end + start, b"v", 7)],
        ),
    ]
    for store, changes, expected in cases:
        rows = list(RowFormat(store).rows(changes, 7))

        assert [tuple(row) for row in rows] == expected, store
        assert RowFormat(store).changes(rows) == changes, store


@pytest.mark.spec("KFK-10")
def test_a_record_of_another_kind_is_refused() -> None:
    """A key without room for a window's start is not taken for one."""
    with pytest.raises(ChangelogCorruptedError, match="'w'"):
        RowFormat(_WINDOW).changes([ChangelogRow(b"short", b"v", 1)])


@pytest.mark.spec("KFK-3")
def test_settings_pass_through_and_promises_stay() -> None:
    """Security reaches every client, a prefix its own; what is decided here is refused."""
    settings = ClientSettings(
        "host:1", {"security.protocol": "ssl", "consumer.fetch.min.bytes": 5, "admin.x": 1}
    )
    member = settings.consumer(
        "g", protocol="classic", assignor="range", offset_reset="latest", instance="i"
    )
    all_of_them = [member, settings.reader("g"), settings.producer("t"), settings.admin()]

    assert {each["security.protocol"] for each in all_of_them} == {"ssl"}
    assert [each.get("fetch.min.bytes") for each in all_of_them] == [5, 5, None, None]
    assert settings.producer(None).get("transactional.id") is None
    for name in ("isolation.level", "consumer.group.id", "producer.transactional.id"):
        with pytest.raises(InvalidOptionError, match="not yours to choose"):
            ClientSettings("host:1", {name: "x"})
