"""What a timestamped specification says, and how the types follow from it."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.serdes import specification_from_description
from statestores_conformance.many_cases import for_each


@pytest.mark.spec("COM-13", "TTL-1")
def test_a_key_value_specification_with_timestamps_is_another_kind() -> None:
    """Neither is the other: their stores differ in what a put takes and in what a get gives."""
    plain, stamped = ss.KeyValue("s"), ss.TimestampedKeyValue("s", ttl_ms=5)

    assert not issubclass(ss.TimestampedKeyValue, ss.KeyValue)
    assert stamped.ttl_clock is ss.TtlClock.EVENT
    assert plain.describe()["kind"] == "key-value"
    assert stamped.describe()["kind"] == "timestamped-key-value"


@for_each("wrong", [{"timestamped": True}, {"ttl_ms": 5}, {"ttl_clock": "wall"}])
def test_a_plain_specification_takes_nothing_of_the_other(wrong: dict[str, Any]) -> None:
    """A time to live that had no effect would keep for ever what is meant to go."""
    with pytest.raises(TypeError, match=next(iter(wrong))):
        ss.KeyValue("s", **wrong)


@pytest.mark.spec("COM-13", "LAY-3")
@for_each("ttl_ms", [None, 1, (1 << 63) - 1])
@for_each("ttl_clock", ["event", "wall"])
def test_a_specification_survives_its_stored_form(ttl_ms: int | None, ttl_clock: str) -> None:
    """And copying, and pickling: workers get it that way."""
    specification = ss.TimestampedKeyValue(
        "s", key=ss.utf8, value=ss.int64, ttl_ms=ttl_ms, ttl_clock=ttl_clock
    )

    assert specification_from_description(specification.describe()) == specification
    assert copy.deepcopy(specification) == specification
    assert pickle.loads(pickle.dumps(specification)) == specification  # noqa: S301  # our own


@pytest.mark.spec("COM-19")
@for_each(
    ("wrong", "error", "match"),
    [
        ({"ttl_ms": 0}, InvalidArgumentError, "from 1"),
        ({"ttl_ms": -1}, InvalidArgumentError, "-1"),
        ({"ttl_ms": 1 << 63}, InvalidArgumentError, "9223372036854775808"),
        ({"ttl_ms": 1.5}, InvalidTypeError, "1.5"),
        ({"ttl_ms": True}, InvalidTypeError, "True"),
        ({"ttl_ms": 5, "ttl_clock": "moon"}, InvalidArgumentError, "'moon'"),
        ({"partitioner": None, "name": 3}, InvalidTypeError, "name"),
    ],
)
def test_a_wrong_specification_is_refused(
    wrong: dict[str, Any], error: type[Exception], match: str
) -> None:
    """The message has the value, and what was expected."""
    arguments: dict[str, Any] = {"name": "s", **wrong}
    with pytest.raises(error, match=match):
        ss.TimestampedKeyValue(**arguments)


@pytest.mark.spec("SRD-1")
def test_types_follow_from_the_specification(tmp_path: Path) -> None:
    """The annotations are checked by mypy: each line would be an error if it were another type."""
    with ss.open_store(
        tmp_path / "stamped",
        ss.TimestampedKeyValue("s", key=ss.utf8, value=ss.int64),
        backend="memory",
    ) as store:
        stamped: ss.TimestampedKeyValueStore[str, int] = store
        stamped.put("a", 1, timestamp_ms=7)
        found: ss.TimestampedValue[int] | None = stamped.get("a")
        facade: ss.ReadOnlyTimestampedKeyValueStore[str, int] = stamped.read_only(
            "read_uncommitted"
        )
        pairs: list[tuple[str, ss.TimestampedValue[int]]] = list(facade.range())
        absent = stamped.put_if_absent("b", 2, 8)
        stamped.put_all([("c", 3, 9), ("b", None, None)])
        many = stamped.get_many(["a", "b", "c"])
        deleted = stamped.delete("c")
        prefixed = list(stamped.prefix_scan(b"a"))
    with ss.open_store(tmp_path / "plain", ss.KeyValue("s"), backend="memory") as other:
        plain: ss.KeyValueStore[bytes, bytes] = other

        assert plain.get(b"a") is None
    assert found == (1, 7)
    assert pairs == prefixed == [("a", found)]
    assert absent is None
    assert many == [(1, 7), None, (3, 9)]
    assert deleted == (3, 9)
