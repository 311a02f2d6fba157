"""`describe` and `run`: topologies of a module of the user's."""

import importlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import statestores as ss
from statestores.processing import LocalRunner, LocalTopics, Record, Topic
from statestores.processing.local import read_instances

Run: TypeAlias = Callable[..., Any]

_MODULE = """
import statestores as ss
from statestores.processing import Topic, Topology

shop = Topology("shop")
lines = shop.stream(Topic("lines", key=ss.utf8, value=ss.utf8))
counts = lines.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
counts.to(Topic("out", key=ss.utf8, value=ss.int64))
"""


_MORE = """
more = shop.stream(Topic("more", key=ss.utf8, value=ss.utf8))
more.group_by_key().count(ss.KeyValue("others", key=ss.utf8, value=ss.int64))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module into a new directory, and go there; return its name."""
    name = f"module_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(_MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return name


def test_a_topology_is_described_as_text_and_as_a_diagram(run: Run, module: str) -> None:
    """The same as `Topology.describe` and `Topology.mermaid` give."""
    text = run("describe", f"{module}:shop")
    diagram = run("describe", f"{module}:shop", "--mermaid")
    shop = importlib.import_module(module).shop

    assert (text.code, text.out) == (0, shop.describe())
    assert (diagram.code, diagram.out) == (0, shop.mermaid())
    document = run("describe", f"{module}:shop", "--json").document
    steps = {step["step"]: step for part in document["parts"] for step in part["steps"]}
    assert [each["store"] for each in document["stores"]] == [
        store.describe() for store in shop.build().stores.values()
    ]
    assert [topic["topic"] for topic in document["topics"]] == list(shop.build().topics)
    assert {name: step["kind"] for name, step in steps.items()} == {
        node.name: node.kind for node in shop.build().nodes
    }
    assert run("describe", f"{module}:shop", "--json", "--mermaid").code == 2


def test_a_topology_is_run_until_its_input_is_processed(
    run: Run, module: str, tmp_path: Path
) -> None:
    """Topics and state are below the directory; a second run finds nothing to do."""
    lines = Topic("lines", key=ss.utf8, value=ss.utf8)
    with LocalTopics(tmp_path / "data" / "topics") as topics:
        topics.topic(lines).append([Record("a", "", 1), Record("a", "", 2)])
    arguments = ("run", f"{module}:shop", "--local", "data", "--backend", "memory", "--until-idle")
    first, second = run(*arguments, "--json"), run(*arguments)

    assert first.document == {"processed": 2, "emitted": 2, "dropped": 0, "commits": 1}
    assert second.out == "0 records processed, 0 emitted, 0 dropped, in 0 commits\n"


def test_a_run_may_answer_queries(run: Run, module: str, tmp_path: Path) -> None:
    """A place that is none is refused; else the run ends as without."""
    lines = Topic("lines", key=ss.utf8, value=ss.utf8)
    with LocalTopics(tmp_path / "data" / "topics") as topics:
        topics.topic(lines).append([Record("a", "b", 1)])
    for name in ("people", "ours"):
        (tmp_path / name).write_text(f"{name}-have-this-token\n")
    tokens = ("--token-file", "people", "--instance-token-file", "ours")
    arguments = ("run", f"{module}:shop", "--local", "data", "--until-idle")
    wrong = run(*arguments, "--serve", "7070")
    nowhere = run(*arguments, *tokens)
    right = run(*arguments, "--serve", "127.0.0.1:0", *tokens)

    assert wrong.code != 0
    assert "host:port" in wrong.err
    assert nowhere.code != 0
    assert "give --serve" in nowhere.err
    assert right.code == 0, right.err
    assert "1 records processed" in right.out


def test_files_are_sources_and_sinks(run: Run, module: str, tmp_path: Path) -> None:
    """With the fields of key and value, and topics that lose what is read."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.jsonl").write_text('{"who": "a", "what": "x"}\n' * 3)
    arguments = ("run", f"{module}:shop", "--local", "data", "--backend", "memory", "--until-idle")
    options = ("--source", "lines=in/?.jsonl?key=who&value=what", "--sink", "out=files")
    outcome = run(*arguments, *options, "--retain", "out=7d", "--retain", "out=1GB", "--json")

    assert outcome.document["processed"] == 3
    assert len(list((tmp_path / "files").glob("out-0-*.parquet"))) == 1


def test_what_is_no_end_of_a_topology_is_refused(
    subtests: pytest.Subtests, run: Run, module: str, tmp_path: Path
) -> None:
    """In one sentence, before anything is read."""
    (tmp_path / "in").mkdir()
    for option, text, reason in (
        ("--source", "lines", "takes TOPIC=..."),
        ("--source", "lines=in/", "let it end in .parquet"),
        ("--source", "lines=in/*.jsonl?kee=who", "has 'kee'"),
        ("--source", "lines=in/*.jsonl?key=who&partition_by=x", "partition_by must be"),
        ("--sink", "=files", "takes TOPIC=..."),
        ("--retain", "out=7", "expected one such as 12h"),
    ):
        with subtests.test(f"{option} {text}"):
            outcome = run("run", f"{module}:shop", "--local", "data", "--until-idle", option, text)

            assert outcome.code == 2
            assert reason in outcome.err


def test_an_option_that_would_do_nothing_is_refused(
    subtests: pytest.Subtests, run: Run, module: str
) -> None:
    """`--threads 4` and `--standbys 1` were taken on Kafka, and nobody was told that they idle."""
    for arguments, reason in (
        ("", "say where to run"),
        ("--kafka h:1", "or --kafka BOOTSTRAP with --state DIR"),
        ("--kafka h:1 --state s --local d", "say where to run"),
        ("--local d --snapshots s --offset-reset latest", "--offset-reset, --snapshots would do"),
        ("--local d --state s", "--state would do nothing with --local"),
        ("--kafka h:1 --state s --threads 4 --partitions 1", "--partitions, --threads would do"),
        ("--kafka h:1 --state s --source a=b.jsonl", "leave it out, or run with --local"),
        ("--kafka h:1 --state s --guarantee twice", "got 'twice'"),
    ):
        with subtests.test(arguments):
            outcome = run("run", f"{module}:shop", *arguments.split())

            assert outcome.code == 2, outcome.err
            assert reason in outcome.err


def test_changelogs_are_compressed_as_asked(run: Run, module: str, tmp_path: Path) -> None:
    """What was written before stays readable."""
    lines = Topic("lines", key=ss.utf8, value=ss.utf8)
    sizes = []
    for compression in ("none", "zstd"):
        with LocalTopics(tmp_path / compression / "topics") as topics:
            topics.topic(lines).append([Record("a" * 200, "", at) for at in range(3)])
        arguments = ("--backend", "memory", "--until-idle", "--changelog-compression", compression)
        outcome = run("run", f"{module}:shop", "--local", compression, *arguments)

        assert outcome.code == 0, outcome.err
        logs = (tmp_path / compression / "state" / "counts").rglob("*.log")
        sizes.append(sum(each.stat().st_size for each in logs))

    assert sizes[0] > sizes[1] > 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("shop", "named as MODULE:TOPOLOGY"),
        ("no_such_module:shop", "no module 'no_such_module'"),
        ("json:dumps", "'dumps' in the module 'json' is no"),
        ("json:dumps", "got function; write one in it, such as dumps = Topology('shop')"),
        ("statestores.cli.py:shop", "name it as Python imports it, 'statestores.cli'"),
    ],
)
def test_what_is_no_topology_is_refused(run: Run, name: str, reason: str) -> None:
    """In one sentence, as a call that cannot be one."""
    outcome = run("describe", name)

    assert outcome.code == 2
    assert reason in outcome.err


def test_a_wrong_name_is_told_which_topologies_there_are(run: Run, module: str) -> None:
    """It used to be "'shops' is no Topology; got None"."""
    outcome = run("describe", f"{module}:shops")

    assert outcome.code == 2
    assert outcome.err == (
        f"statestores: there is no 'shops' in the module {module!r}; the module has: shop\n"
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import not_there", "ModuleNotFoundError: No module named 'not_there'"),
    ],
)
def test_a_module_that_fails_is_told_in_a_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    """It was a traceback through the command line, with the user's own line somewhere in it."""
    name = f"failing_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = run("describe", f"{name}:shop")

    assert outcome.code == 2
    assert outcome.err == (
        f"statestores: the module {name!r} fails when it is imported: {reason}; "
        f"python -c 'import {name}' shows where\n"
    )


@pytest.mark.spec("PRC-73")
def test_a_topology_is_reset_after_it_was_said_what_goes(
    run: Run, module: str, tmp_path: Path
) -> None:
    """Without --yes nothing goes; with it, the next run processes everything again."""
    lines = Topic("lines", key=ss.utf8, value=ss.utf8)
    with LocalTopics(tmp_path / "data" / "topics") as topics:
        topics.topic(lines).append([Record("a", "", 1), Record("a", "", 2)])
    begin = ("run", f"{module}:shop", "--local", "data", "--backend", "memory", "--until-idle")
    reset = ("reset", f"{module}:shop", "--local", "data", "--outputs")
    run(*begin)
    shown = run(*reset, "--json")
    removed = run(*reset, "--yes")
    again, nothing = run(*begin, "--json"), run(*begin, "--json")
    empty = run("reset", f"{module}:shop", "--local", "elsewhere", "--yes")

    assert [(line["what"], line["name"]) for line in shown.lines] == [
        ("output topic", "out"),
        ("state", "shop"),
    ]
    assert "--yes removes it" in shown.err
    assert "'lines', partition 0, was processed up to offset 1" in shown.err.replace("\n", " ")
    assert (removed.code, "removed 2 of 2" in removed.err) == (0, True)
    assert (again.document["processed"], nothing.document["processed"]) == (2, 0)
    assert "there is nothing to remove" in empty.err


@pytest.mark.spec("PRC-72", "PRC-74")
def test_what_runs_keeps_others_from_running_something_else(
    run: Run, module: str, tmp_path: Path
) -> None:
    """Another form of the topology, and a reset: each says which process is in the way."""
    (tmp_path / f"{module}_later.py").write_text(_MODULE + _MORE)
    importlib.invalidate_caches()
    shop = importlib.import_module(module).shop
    runner = LocalRunner(shop, "data/state", "data/topics", backend="memory")
    thread = threading.Thread(target=runner.run)
    thread.start()
    while not read_instances("data/state"):
        assert thread.is_alive()
        thread.join(0.01)
    arguments = ("--local", "data", "--until-idle")
    other = run("run", f"{module}_later:shop", *arguments)
    same = run("run", f"{module}:shop", *arguments, "--standbys", "1")
    reset = run("reset", f"{module}:shop", "--local", "data", "--yes")
    runner.stop()
    thread.join()

    assert (other.code, same.code, reset.code) == (1, 0, 1)
    assert f"process {os.getpid()} on" in other.err
    assert "another form of it" in other.err
    assert "stop it first" in reset.err
