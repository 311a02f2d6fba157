"""Calls that cannot be: one sentence on standard error, exit code 2 or 1, and no traceback."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from statestores_conformance.many_cases import for_each

Run: TypeAlias = Callable[..., Any]

_COMMANDS = (
    *("backends", "info", "get", "scan", "history", "changelog"),
    *("export", "export-spark", "verify", "import", "import-kafka", "snapshot", "compact"),
    *("lag", "top", "diff", "du", "doctor"),
)


@for_each(
    ("arguments", "words"),
    [
        (["nope"], "No such command 'nope'"),
        (["scann", "x"], "Did you mean 'scan'"),
        (["get"], "Missing argument 'PATH'"),
        (["get", "{root}"], "Missing argument 'KEY'"),
        (["scan", "{root}", "--unknown"], "No such option: --unknown"),
        (["scan", "{root}", "--limit", "-1"], "--limit"),
        (["scan", "{root}", "--limit", "many"], "--limit"),
        (["scan", "{root}"], "name one with --store"),
        (["scan", "{root}/planes", "--store", "counts"], "leave one out"),
        (["scan", "{root}/planes/0", "--store", "counts"], "a partition of the store 'planes'"),
        (["info", "{root}/planes/0", "--store", "counts"], "a partition of the store 'planes'"),
        (["verify", "{root}/planes/0", "--store", "counts"], "a partition of the store 'planes'"),
        (["changelog", "{root}/planes/0/changelog", "--store", "counts"], "leave one out"),
        (["snapshot", "{root}/planes/0", "--store", "counts"], "leave one out"),
        (["compact", "{root}/planes/0", "--store", "counts"], "leave one out"),
        (["scan", "{root}/planes", "--as-of", "tomorrow"], "got 'tomorrow'"),
        (["scan", "{root}/planes", "--as-of", "1969-12-31"], "from 1970 on"),
        (["scan", "{root}/counts", "--as-of", "5"], "knows no time"),
        (["export", "{root}/counts", "x.arrow", "--as-of", "5"], "knows no time"),
        (["get", "{root}/counts", "five"], "whole numbers of 64 bits, got 'five'"),
        (["get", "{root}/counts", "hex:5"], "got '5'"),
        (["scan", "{root}/counts", "--prefix", "hex:x"], "got 'x'"),
        (["history", "{root}/planes", "k", "--from", "9", "--to", "8"], "is after the last"),
        (["scan", "{root}/counts", "--backend-option", "x"], "KEY=VALUE, got 'x'"),
        (["scan", "{root}/counts/0/changelog"], "use the changelog command"),
        (["scan", "{root}/counts", "--json", "--csv"], "leave --json or --csv out"),
        (["scan", "{root}/planes", "--as-of", "today 25:00"], "a time of the day is as in"),
        (["scan", "{root}/planes", "--as-of", "99999w"], "from 1970 on"),
        (["history", "{root}", "planes", "k", "--store", "planes"], "the store is named twice"),
        (["changelog", "{root}/counts", "--follow", "--until", "1h"], "--follow has no end"),
        (["changelog", "{root}/counts", "--since", "1h", "--from-offset", "0"], "leave one out"),
        (["changelog", "{root}/counts/0", "--key", "five"], "whole numbers of 64 bits"),
        (["diff", "{root}/counts", "{root}/planes"], "nothing of them can be compared"),
        (["diff", "{root}/planes", "{root}/planes", "--offset-a", "1"], "of a single partition"),
        (["lag"], "give a state root, or --url"),
        (["lag", "{root}", "--url", "http://127.0.0.1:1"], "one of them"),
        (["lag", "--url", "ftp://127.0.0.1"], "--url is as http"),
        (["lag", "{root}/counts/0"], "is no state root and none of its stores"),
        (["lag", "s3://bucket/root"], "info takes the URL"),
        (["top", "{root}", "--interval", "0"], "--interval"),
        (["info", "{root}/counts/0/changelog", "--local", "{root}"], "leave --local out"),
    ],
)
def test_a_call_that_cannot_be_is_exit_code_2(
    root: Path, run: Run, arguments: list[str], words: str
) -> None:
    """The sentence says what was wrong with it."""
    outcome = run(*(argument.format(root=root) for argument in arguments))

    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert outcome.err.startswith("statestores")
    assert outcome.err.count("\n") == 1


@for_each(
    ("arguments", "words"),
    [
        (["info", "{root}/nowhere"], "there is nothing at"),
        (["scan", "{root}/statestores.json"], "is no state root"),
        (["scan", "{root}", "--store", "other"], "has no store 'other'; it has: counts, planes"),
        (["changelog", "{root}/planes/0", "--from-offset", "999"], "asked for 999"),
        (["info", "{root}", "--local", "{root}/nowhere"], "there is no directory"),
        (["lag", "--url", "http://127.0.0.1:1"], "nobody answers at"),
        (["du", "{root}", "--store", "other"], "has no store 'other'"),
        (["import", "{root}/nothing.arrow", "{root}"], "there is no file at"),
    ],
)
def test_a_failure_is_exit_code_1(root: Path, run: Run, arguments: list[str], words: str) -> None:
    """What is not there cannot be shown."""
    outcome = run(*(argument.format(root=root) for argument in arguments))

    assert (outcome.code, outcome.out) == (1, "")
    assert words in outcome.err
    assert outcome.err.count("\n") == 1


def test_an_unknown_backend_option_lists_the_known_ones(bare: Path, run: Run) -> None:
    """Each backend has its own."""
    outcome = run("scan", bare, "--backend-option", "colour=red")

    assert outcome.code == 2
    assert "unknown option 'colour'; known: " in outcome.err


def test_a_value_that_is_not_the_serdes_can_be_seen_raw(
    root: Path, tmp_path: Path, run: Run, succeed: Run
) -> None:
    """Damage is an error that says how to look at the bytes."""
    file = tmp_path / "counts.arrow"
    succeed("export", root / "counts", file, "--raw")
    text = (root / "statestores.json").read_text().replace('"value": "bytes"', '"value": "json"')
    content = json.loads(text)
    del content["crc32"]
    (root / "statestores.json").write_text(json.dumps(content))
    outcome = run("get", root, "5", "--store", "counts")

    assert outcome.code == 1
    assert "--raw shows bytes" in outcome.err
    assert succeed("get", root, "5", "--store", "counts", "--raw").out == "\\xff5\\x1b[31m\n"


@for_each("command", _COMMANDS)
def test_each_command_explains_itself_with_an_example(succeed: Run, command: str) -> None:
    """``--help`` ends with how it is called."""
    outcome = succeed(command, "--help")

    assert f"Example: statestores {command} " in " ".join(outcome.out.split())
    assert "--json" in outcome.out


def test_what_writes_says_so(succeed: Run) -> None:
    """Some commands write, and everything else only reads."""
    lines = succeed("--help").out.splitlines()
    writing = [line.split()[0] for line in lines if "WRITES" in line]

    assert writing == [
        *("import", "import-kafka", "import-quix", "import-faust", "import-bytewax"),
        *("import-database", "restore", "snapshot", "new-backend", "reshard", "compact"),
        *("run", "reset"),
        "import-spark",
    ]


def test_without_a_command_the_help_is_printed(succeed: Run) -> None:
    """And the version, when that is asked for."""
    assert succeed().out == succeed("--help").out
    assert succeed("--version").out.startswith("statestores 0.")
