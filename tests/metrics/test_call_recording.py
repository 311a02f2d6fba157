"""Every call recorded, as Kafka's level DEBUG does."""

from collections.abc import Callable
from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import InvalidTypeError
from statestores.metrics import MetricSource, RecordingLevel, set_recording_level
from statestores.semantics import open_on_engine
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores_memory import MemoryEngine

Values = Callable[[MetricSource], dict[str, int | float]]


@pytest.mark.spec("MET-8")
def test_each_call_is_counted_and_timed(store: EngineKeyValueStore, values: Values) -> None:
    """A call that the store makes of its own methods is not another one."""
    set_recording_level(store, "DEBUG")
    for number in range(5):
        store.put(b"%d" % number, b"v")
    store.put_if_absent(b"0", b"w")
    store.delete(b"0")
    store.get(b"1")
    measured = values(store)

    assert measured["get-total"] == 1
    assert measured["put-if-absent-total"] == measured["delete-total"] == 1
    assert measured["put-latency-max"] >= measured["put-latency-avg"] > 0
    assert measured["put-total"] == 6  # records, as without DEBUG
    assert "range-latency-avg" not in measured


@pytest.mark.spec("MET-8")
def test_a_failed_call_is_a_call(store: EngineKeyValueStore, values: Values) -> None:
    """It took its time as well; and the calls after it are recorded."""
    set_recording_level(store, RecordingLevel.DEBUG)
    with pytest.raises(InvalidTypeError):
        store.get("not bytes")  # type: ignore[arg-type]
    store.get(b"a")

    assert values(store)["get-total"] == 2


@pytest.mark.spec("MET-8")
def test_an_iteration_is_recorded_when_it_ends(store: EngineKeyValueStore, values: Values) -> None:
    """From the call to the end, also when nobody ever asked for an item."""
    store.put_many([b"a", b"b"], [b"1", b"2"])
    set_recording_level(store, "DEBUG")
    running, never_begun = store.range(), store.prefix_scan(b"a")
    next(running)
    before = values(store)
    assert list(running) == [(b"b", b"2")]
    del never_begun
    after = values(store)

    assert (before["range-total"], before["prefix-scan-total"]) == (0, 0)
    assert (after["range-total"], after["prefix-scan-total"]) == (1, 1)
    assert (before["num-open-iterators"], after["num-open-iterators"]) == (2, 0)


@pytest.mark.spec("MET-8")
def test_the_level_can_be_set_back(store: EngineKeyValueStore, values: Values) -> None:
    """No call is recorded any more, and what was recorded stays."""
    set_recording_level(store, "DEBUG")
    store.get(b"a")
    set_recording_level(store, "INFO")
    store.get(b"a")
    assert values(store)["get-total"] == 1
    set_recording_level(store, "DEBUG")
    store.get(b"a")

    assert values(store)["get-total"] == 2


@pytest.mark.spec("MET-8", "MET-2")
def test_every_kind_can_be_recorded(values: Values) -> None:
    """The names are Kafka's: a window store fetches."""
    specification = ss.Window("w", window_size_ms=5, retention_ms=10)
    with open_on_engine(MemoryEngine(), specification) as windows:
        set_recording_level(windows, "DEBUG")
        windows.put(b"a", b"1", 5)
        windows.fetch(b"a", 5)
        windows.fetch_many([b"a", b"b"], 5)
        list(windows.fetch_all())
        names = [metric.name for metric in windows.metrics()]

        assert values(windows)["fetch-total"] == 2
        assert values(windows)["fetch-many-total"] == 1
        assert len(names) == len(set(names))
    with open_on_engine(MemoryEngine(), ss.Versioned("v", history_retention_ms=10)) as versions:
        set_recording_level(versions, "DEBUG")
        versions.put_many([b"a", b"b"], [b"1", b"2"], [5, 6])
        list(versions.history(b"a"))

        assert values(versions)["put-many-total"] == values(versions)["history-total"] == 1
        assert values(versions)["put-total"] == 2


@pytest.mark.spec("MET-8")
def test_a_typed_store_is_recorded_with_its_serdes(tmp_path: Path, values: Values) -> None:
    """What is recorded is what the caller calls."""
    with ss.open_store(tmp_path / "s", ss.KeyValue("s", key=ss.utf8), backend="memory") as store:
        set_recording_level(store, "DEBUG")
        store.put("a", b"1")

        assert store.get("a") == b"1"
        assert values(store)["get-total"] == 1


def test_what_takes_no_attributes_is_refused() -> None:
    """A store with slots, a facade's or anything else's mistake: the message says why."""
    with pytest.raises(InvalidTypeError, match="takes no attributes"):
        set_recording_level(object(), "DEBUG")  # type: ignore[arg-type]
