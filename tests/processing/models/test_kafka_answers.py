"""Random topologies and input, and what Kafka Streams answered.

`answers/kafka-streams-4.3.1.jsonl` has a case a line: its steps and functions are those of the
topology vectors (conformance, `topology_vectors/README.md`), its input is late, out of order, and
without keys and values here and there. A program made them up, and Kafka's `TopologyTestDriver`
4.3.1 answered: caches off, emit intervals 0, wall clock from 0. Kept are some of each family on
which we agree; where we do not, chapter 11 says why. They hold facts only, and no text of Kafka's.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from statestores_conformance.many_cases import for_each
from statestores_conformance.topology_vectors import differences

ANSWERS = Path(__file__).parents[1] / "answers" / "kafka-streams-4.3.1.jsonl"


def _case(line: str) -> dict[str, Any]:
    """Return a case of the form of the vectors."""
    kept: dict[str, Any] = json.loads(line)
    given = ("topic", "key", "value", "timestamp")
    kept["input"] = [
        dict(zip(given, each, strict=True))
        if isinstance(each, list)
        else {"advance_wall_clock": each}
        for each in kept["input"]
    ]
    output = [dict(zip(("after", *given), each, strict=True)) for each in kept.pop("output")]
    kept["expected"] = {"output": output, "dropped": kept.pop("dropped")}
    for name in ("stores", "as_of"):
        if name in kept:
            kept["expected"][name] = kept.pop(f"expected_{name}")
    return kept


CASES = [_case(line) for line in ANSWERS.read_text("utf-8").splitlines()]
FAMILIES = sorted({case["name"].rpartition("-")[0] for case in CASES})


@pytest.mark.spec("PRC-20", "PRC-21", "PRC-24", "PRC-25", "PRC-26", "PRC-32", "PRC-35", "PRC-36")
@pytest.mark.spec("PRC-41", "PRC-42", "PRC-43", "PRC-44", "PRC-45", "PRC-83", "PRC-84", "PRC-85")
@for_each("family", FAMILIES)
def test_random_input_is_answered_as_kafka_streams_does(family: str) -> None:
    """Record by record: output, its order and times, stores, and what is dropped."""
    cases = [case for case in CASES if case["name"].rpartition("-")[0] == family]

    found = {case["name"]: differences(case) for case in cases}

    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.soak
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("backend", ["rocksdb", "sqlite"])
def test_random_input_is_answered_so_from_disk(family: str, backend: str) -> None:
    """On the backends that keep it."""
    cases = [case for case in CASES if case["name"].rpartition("-")[0] == family]

    found = {case["name"]: differences(case, backend=backend) for case in cases}

    assert {name: lines for name, lines in found.items() if lines} == {}


def test_every_family_is_there() -> None:
    """A file that is cut short is noticed."""
    assert (len(FAMILIES), len(CASES)) == (52, 243)
