"""What Kafka Streams answers, answered by the test driver on every backend and in batches."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from long_runs import IS_LONG

from statestores.errors import InvalidArgumentError
from statestores_conformance.many_cases import for_each
from statestores_conformance.topology_vectors import differences, load, overrides
from statestores_conformance.topology_vectors.__main__ import main

CASES = sorted(Path(str(files("statestores_conformance.topology_vectors") / "cases")).glob("*"))
BATCHES = (1, 2, 3, 0)

_BACKENDS = ("memory", "rocksdb", "sqlite") if IS_LONG else ("memory", "rocksdb")


@pytest.mark.spec("PRC-56", "PRC-82", "PRC-95")
@pytest.mark.spec("PRC-9", "PRC-13", "PRC-14", "PRC-20", "PRC-21", "PRC-24", "PRC-25", "PRC-26")
@pytest.mark.spec("PRC-11", "PRC-32", "PRC-34", "PRC-35", "PRC-36", "PRC-38", "PRC-41", "PRC-45")
@pytest.mark.parametrize("family", sorted({path.stem.partition(".")[0] for path in CASES}))
def test_answers_as_kafka_streams_does(family: str) -> None:
    """Every case, at batch sizes 1, 2, 3 and all: records, columns, runs, and with a cache."""
    found = {}
    for path in CASES:
        if path.stem.partition(".")[0] == family:
            for backend in _BACKENDS:
                found[path.stem, backend] = _found(path, backend)

    assert {
        (*case, what): lines
        for case, ways in found.items()
        for what, lines in ways.items()
        if lines
    } == {}


def _found(path: Path, backend: str) -> dict[str, list[str]]:
    """Return the differences of a case, by backend, batch size and way."""
    case = load(path)
    found = {
        f"{backend} {batch}": differences(case, backend=backend, batch=batch)
        for batch in (BATCHES if backend == "memory" else (1,))
    }
    # What is between batches is the same over every backend.
    for batch in BATCHES[1:] if IS_LONG or backend == "memory" else (0,):
        as_columns = differences(case, backend=backend, batch=batch, least_column_rows=1)
        found[f"{backend} {batch} as columns"] = as_columns
        if backend == "memory" or batch == 0:
            as_runs = differences(case, backend=backend, batch=batch, least_run_rows=1)
            found[f"{backend} {batch} as runs"] = as_runs
        if backend == "memory":
            cached = differences(case, batch=batch, cache_max_bytes=1 << 20)
            found[f"{backend} {batch} with a cache"] = cached
    return found


_FAMILIES = {path.stem.partition(".")[0]: path for path in CASES}
"""One case of each family: the last."""


@pytest.mark.long
@pytest.mark.spec("PRC-9", "PRC-12", "PRC-49", "PRC-54", "PRC-82")
@pytest.mark.parametrize("family", [name for name in _FAMILIES if name != "task_order"])
def test_the_local_runner_answers_so_too(family: str, tmp_path: Path) -> None:
    """A case of each family on durable topics, begun anew for each batch; once with a cache."""
    case = load(_FAMILIES[family])

    found = {
        f"{backend} {batch} {cache}": differences(
            case,
            backend=backend,
            batch=batch,
            directory=tmp_path / f"{backend}-{batch}-{cache}",
            runner="local",
            cache_max_bytes=cache,
        )
        for backend, batch, cache in (("sqlite", 1, 0), ("memory", 2, 1 << 20), ("rocksdb", 0, 0))
    }

    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "sqlite"])
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_local_runner_answers_every_case_so(path: Path, backend: str) -> None:
    """At batch sizes 1, 2, 3 and all; without a cache, with a small one, and with a large one."""
    case = load(path)

    found = {
        (batch, cache): differences(
            case, backend=backend, batch=batch, runner="local", cache_max_bytes=cache
        )
        for batch in BATCHES
        for cache in (0, 400, 1 << 20)
    }

    assert {batch: lines for batch, lines in found.items() if lines} == {}


def test_a_step_that_is_not_known_is_named() -> None:
    """So is what a step that is known has too much."""
    for step, named in (
        ({"op": "zip", "id": "z", "from": "s"}, "'zip'"),
        ({"op": "suppress", "id": "x", "from": "t", "max_recods": 1}, "'max_recods'"),
        ({"op": "suppress", "id": "x", "from": "t"}, "says no limit"),
        ({"op": "suppress", "id": "x", "from": "t", "until": "noon"}, "'noon'"),
        ({"op": "filter", "id": "f", "from": "none", "fn": ["even"]}, "'none'"),
        ({"op": "count", "id": "c", "from": "s", "emit": "clsoe"}, "'clsoe'"),
        ({"op": "join", "id": "j", "from": "t", "other": "t", "joiner": "minus"}, "'minus'"),
        ({"op": "group_by", "id": "g", "from": "s"}, "without a function"),
    ):
        steps = [
            {"op": "stream", "id": "s", "topic": "in"},
            {"op": "table", "id": "t", "topic": "rows"},
            step,
        ]

        with pytest.raises(InvalidArgumentError, match=named):
            differences({"name": "case", "topology": steps, "input": [], "expected": {}})


def test_a_field_that_is_not_known_is_named_where_something_differs() -> None:
    """It may be what the difference comes from; where nothing differs, it was not needed."""
    steps = [
        {"op": "stream", "id": "s", "topic": "in", "note": "x"},
        {"op": "filter", "id": "f", "from": "s", "fn": ["even"], "unless": ["greater", 5]},
        {"op": "to", "from": "f", "topic": "out"},
    ]
    given = [{"topic": "in", "key": "a", "value": 6, "timestamp": 1}]
    out = {"after": 0, "topic": "out", "key": "a", "value": 6, "timestamp": 1}
    case: dict[str, Any] = {"name": "case", "topology": steps, "input": given}

    agreeing = differences({**case, "expected": {"output": [out]}})
    differing = differences({**case, "expected": {"output": []}})

    assert agreeing == []
    assert differing[:2] == [
        "the field 'note' of the step 's' is not known",
        "the field 'unless' of the step 'f' is not known",
    ]


@pytest.mark.spec("PRC-17", "PRC-53")
@pytest.mark.parametrize("runner", ["driver", "local"])
@pytest.mark.parametrize("batch", [1, 2, 0])
def test_a_case_may_fail(runner: Any, batch: int) -> None:
    """What came before in the batch that fails may be there or not; so the runners differ."""
    steps = [
        {"op": "stream", "id": "s", "topic": "in"},
        {"op": "filter", "id": "f", "from": "s", "fn": ["even"]},
        {"op": "to", "from": "f", "topic": "out"},
    ]
    given = [{"topic": "in", "key": "a", "value": each, "timestamp": 1} for each in (2, 4, 6, "x")]
    rows = [{**each, "after": at, "topic": "out"} for at, each in enumerate(given[:3])]
    case: dict[str, Any] = {"name": "case", "topology": steps, "input": given}

    assert (
        differences(
            {**case, "expected": {"output": rows, "fails_at": 3}}, batch=batch, runner=runner
        )
        == []
    )
    assert differences(
        {**case, "input": given[:3], "expected": {"output": rows, "fails_at": 3}}, batch=batch
    ) == ["it should fail at input 3, and did not"]


def test_a_kind_of_store_that_is_not_known_is_named() -> None:
    """Its rows are not listed as if they were of another kind."""
    steps = [{"op": "table", "id": "t", "topic": "in"}]
    case = {"name": "case", "topology": steps, "input": [], "stores": {"t": "windows"}}

    with pytest.raises(InvalidArgumentError, match="'windows'"):
        differences({**case, "expected": {"stores": {"t": []}}})


@for_each(
    "limit",
    [
        {"max_records": 2},
        {"max_records": 2, "when_full": "emit"},
        {"buffer": {"max_records": 2}},
        {"buffer": {"records": 2, "full": "emit_early"}},
    ],
)
def test_a_limit_of_records_is_read_in_any_spelling(limit: dict[str, Any]) -> None:
    """The one that has waited longest comes out, and nothing by time."""
    records = [("a", 1, 5), ("b", 2, 6), ("a", 3, 7), ("c", 4, 8)]
    case = {
        "name": "limit",
        "topology": [
            {"op": "table", "id": "t", "topic": "in"},
            {"op": "suppress", "id": "x", "from": "t", **limit},
            {"op": "to", "from": "x", "topic": "out"},
        ],
        "input": [
            {"topic": "in", "key": key, "value": value, "timestamp": at}
            for key, value, at in records
        ],
        "expected": {
            "output": [{"after": 3, "topic": "out", "key": "a", "value": 3, "timestamp": 7}]
        },
    }

    assert differences(case) == []


def test_overrides_are_of_cases_and_give_a_requirement() -> None:
    """Each says which rule decides, and differs from what Kafka answers."""
    for name, ours in overrides().items():
        case = json.loads((CASES[0].parent / f"{name}.json").read_text("utf-8"))

        assert ours["why"].startswith("PRC-")
        assert {**case["expected"], **ours["expected"]} != case["expected"]


def test_the_command_fails_when_a_case_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed expectation is told, and the exit code is not 0."""
    case = json.loads((CASES[0].parent / "stateless.filter.json").read_text("utf-8"))
    (tmp_path / "good.json").write_text(json.dumps(case), "utf-8")
    good = main([str(tmp_path)])
    case["expected"]["output"].pop()
    (tmp_path / "bad.json").write_text(json.dumps(case), "utf-8")
    bad = main([str(tmp_path), "--batch", "2"])

    assert (good, bad) == (0, 1)
    assert "bad: out:" in capsys.readouterr().out


def test_a_directory_without_cases_is_refused(tmp_path: Path) -> None:
    """Nothing run is not everything right."""
    assert main([str(tmp_path)]) == 2


def test_no_case_is_missing() -> None:
    """All that came are there."""
    assert len(CASES) == 62
