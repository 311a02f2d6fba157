"""The machine that makes mutants: what it changes, and that its verdicts are true."""

import json
import subprocess
import sys
from itertools import count
from pathlib import Path
from threading import Lock
from types import CodeType, ModuleType
from typing import Any

import pytest

from statestores_mutation import children
from statestores_mutation.drawing import drawn, groups_of, mutations_in
from statestores_mutation.exchange import NotExchangedError, exchange
from statestores_mutation.mutations import Mutation, mutated, mutations_of
from statestores_mutation.probes import Seen, instrumented
from statestores_mutation.sources import Sources
from statestores_mutation.verdicts import (
    Outcome,
    Verdict,
    combined,
    known_equivalents,
    markdown,
    score,
)

_SOURCE = '''\
"""A module to be changed."""

LIMIT = 10


def clamp(number: int, least: int = 3) -> int:
    """Return *number*, or the limit."""
    if number > LIMIT:
        return LIMIT
    assert number is not None
    return max(number, least)


def spin(count: int) -> int:
    while count > 0:
        count -= 1
    return count


def never() -> int:
    return 1


class Counter:
    def __init__(self) -> None:
        self.seen = 0

    def add(self) -> int:
        def step() -> int:
            return 2

        self.seen += step()
        return self.seen
'''

_TESTS = """\
from mutated_module import Counter, clamp, spin


def test_clamp():
    assert [clamp(2), clamp(10), clamp(11)] == [3, 10, 10]


def test_spin():
    assert spin(3) == 0


def test_counter():
    assert Counter().add() == 2
"""

_EDITING_TEST = """\


def test_that_somebody_edits_the_module_meanwhile():
    with open("mutated_module.py", "a") as file:
        file.write("# edited")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a module that may be changed."""
    (tmp_path / "mutated_here.py").write_text(_SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mutated_here", raising=False)
    return __import__("mutated_here")


def _find(what: str, function: str) -> Mutation:
    found = [
        mutation
        for mutation in mutations_of("mutated_here", _SOURCE)
        if mutation.what == what and mutation.function == function
    ]
    return found[0]


def test_mutations_are_small_changes_of_functions(subtests: pytest.Subtests) -> None:
    """They change what a function does, are programs, and have names of their own."""
    mutations = mutations_of("mutated_here", _SOURCE)
    with subtests.test("constants, defaults, annotations, assertions and docstrings stay"):
        lines = {mutation.line for mutation in mutations}

        assert lines == {8, 9, 11, 15, 16, 17, 21, 26, 30, 32, 33}
    with subtests.test("keys tell equal changes in equal lines apart, and do not name lines"):
        source = "def f(a, b):\n    a += 1\n    a += 1\n    return a\n"
        keys = [mutation.key for mutation in mutations_of("m", source)]

        assert len(set(keys)) == len(keys)
        assert [mutation.key for mutation in mutations_of("m", "\n" + source)] == keys
    with subtests.test("what is made is a program, and another one"):
        sound = compile(_SOURCE, "mutated_here.py", "exec")
        for mutation in mutations:
            code = compile(mutated(_SOURCE, mutation), "mutated_here.py", "exec")

            assert code != sound, mutation.key


def test_a_sample_survives_an_edit() -> None:
    """What is drawn is drawn again when code elsewhere has changed; each package has its own."""
    source = "def f(a):\n" + "".join(f"    a += {number}\n" for number in range(30))
    mutations = mutations_of("one.m", source + "    return a\n")
    keys = {mutation.key for mutation in drawn(mutations, 20, seed=1)}
    edited = mutations_of("one.m", source.replace("a += 7", "a -= 7"))
    again = {mutation.key for mutation in drawn(edited, 20, seed=1)}

    assert len(keys) == 20
    assert keys != {mutation.key for mutation in drawn(mutations, 20, seed=2)}
    assert len(keys & again) >= 16
    assert drawn(mutations, 0, seed=1) == mutations
    others = mutations_of("two.m", source)
    assert groups_of([*mutations, *others], ["two.m", "one", "one.m"]) == [others, mutations, []]


_JUDGED = """\
def judged(a, b, wait):
    if a < b and not wait:
        return min(a, b)
    larger = (x for x in (a, b) if x >= 3)
    try:
        first = (lambda: next(larger))()
    except StopIteration:
        first = 7 if b > 1 else 8
    while b > 0:
        b -= 1
    if wait and a / b:
        return None
    return first
"""


def _outcome(code: CodeType, arguments: tuple[Any, ...]) -> object:
    namespace: dict[str, Any] = {}
    exec(code, namespace)  # noqa: S102  # the source stands above
    try:
        return namespace["judged"](*arguments)
    except (TypeError, ZeroDivisionError) as error:
        return type(error)


def test_what_makes_no_difference_is_known_without_a_run(subtests: pytest.Subtests) -> None:
    """Probes leave results and errors as they are; changes that they rule out change nothing."""
    tree, marks = instrumented("m", _JUDGED, count(1))
    sound, probed = compile(_JUDGED, "m.py", "exec"), compile(tree, "m.py", "exec")
    mutations = {mutation.key: mutation for mutation in mutations_of("m", _JUDGED)}
    seen = Seen()
    seen.install()
    ruled_out: dict[tuple[Any, ...], set[str]] = {}
    for arguments in [(1, 2, False), (2, 2, False), (9, 3, True), (1, 0, True), (1, "a", 1)]:
        with subtests.test(arguments=arguments):
            expected = _outcome(sound, arguments)

            assert _outcome(probed, arguments) == expected
            left = set(seen.take())
            reached = {key for key in mutations if marks[key].reached & left}
            ruled_out[arguments] = {key for key in reached if not marks[key].differs & left}
            for key in ruled_out[arguments]:
                code = compile(mutated(_JUDGED, mutations[key]), "m.py", "exec")

                assert _outcome(code, arguments) == expected, key
    line = "m:judged: if a < b and not wait:"

    assert f"{line} | Lt -> LtE" in ruled_out[1, 2, False]
    assert f"{line} | condition -> True" in ruled_out[1, 2, False]
    assert f"{line} | condition -> False" in ruled_out[2, 2, False]
    assert f"{line} | Lt -> LtE" not in ruled_out[2, 2, False]
    # The comparison raises, which a condition that is taken for false does not.
    assert f"{line} | condition -> False" not in ruled_out[1, "a", 1]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_ends_that_waits_for_what_does_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Limits count processor time, which a deadlock does not take; a busy process is let alone."""
    monkeypatch.setattr(children, "_LEAST_STILL_SECONDS", 0.3)
    monkeypatch.setattr(children, "_LOOK_SECONDS", 0.02)

    def busy() -> dict[str, Any]:
        return {"sum": sum(range(10**6))}

    def waiting() -> dict[str, Any]:
        lock = Lock()
        lock.acquire()
        lock.acquire()
        return {}

    for name, work in {"busy": busy, "waiting": waiting}.items():
        child = children.start(tmp_path / name, request.config, work)
        while not child.look():
            children.wait_for_any([child])

        assert child.hangs == (name == "waiting")
        assert child.result() == ({"sum": 499999500000} if name == "busy" else {"output": ""})


def test_code_is_exchanged_for_whoever_holds_it(module: ModuleType) -> None:
    """A function that was imported, and a method of an object that is there, run the new code."""
    clamp, counter = module.clamp, module.Counter()
    exchange("mutated_here", mutated(_SOURCE, _find("Gt -> LtE", "clamp")))

    assert clamp(5) == 10
    exchange("mutated_here", mutated(_SOURCE, _find("2 -> 3", "Counter.add.step")))
    assert counter.add() == 3


def test_what_nobody_holds_is_not_a_survivor(module: ModuleType) -> None:
    """A change that cannot be made says so: it would pass every test."""
    del module.never
    with pytest.raises(NotExchangedError, match="mutated_here"):
        exchange("mutated_here", mutated(_SOURCE, _find("1 -> 2", "never")))


@pytest.mark.long
def test_verdicts_are_true_and_a_run_goes_on(tmp_path: Path) -> None:
    """Killed, survived and not reached are told apart; what is known is not run again.

    And of a module that is edited meanwhile no verdict is stored: it would be of what is imported,
    of the file, or of both, and nobody could tell it from the others.
    """
    (tmp_path / "mutated_module.py").write_text(_SOURCE, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(_TESTS, encoding="utf-8")
    # As this project's: options of plugins that a run of mutants could do without.
    options = "[pytest]\naddopts = -ra --durations=20 --strict-config\ntimeout = 300\n"
    (tmp_path / "pytest.ini").write_text(options, encoding="utf-8")
    frozen = "import gc\ndef pytest_collection_finish():\n    gc.freeze()\n"
    (tmp_path / "conftest.py").write_text(frozen, encoding="utf-8")
    command = [sys.executable, "-m", "statestores_mutation", "mutated_module"]
    command += ["--tests", "test_it.py", "--results", "results.jsonl", "--only"]
    outputs = []
    for only in ("clamp", "never", "never"):
        run = subprocess.run(  # our own program
            [*command, only], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        outputs.append(run.stdout)
    lines = (tmp_path / "results.jsonl").read_text("utf-8").splitlines()
    found = {fields["key"].partition(" | ")[2]: fields for fields in map(json.loads, lines)}

    # At the limit both give the limit, and the order of two numbers is nothing to `max`.
    alive = [what for what, fields in found.items() if fields["outcome"] == "survived"]
    assert sorted(alive) == ["Gt -> GtE", "arguments swapped"]
    assert {found[what]["tests"] for what in alive} == {1}
    assert found["1 -> 2"]["outcome"] == "not reached"
    assert "test_clamp: AssertionError" in found["max -> min"]["by"]
    assert "0 of them judged before" in outputs[0]
    assert outputs[2].count("sound") == 0
    listed = subprocess.run(
        [*command[:4], "--survivors", "results.jsonl", "--list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line.partition(" | ")[2] for line in listed.stdout.splitlines()} == {
        what for what, fields in found.items() if fields["outcome"] != "killed"
    }
    assert "not reached" in outputs[2]

    (tmp_path / "test_it.py").write_text(_TESTS + _EDITING_TEST, encoding="utf-8")
    edited = subprocess.run(
        [*command, "spin"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert edited.returncode == 2
    assert "error: changed while its mutants were judged: mutated_module;" in edited.stderr
    assert (tmp_path / "results.jsonl").read_text("utf-8").splitlines() == lines


def test_a_score_leaves_out_what_nobody_can_see() -> None:
    """Equivalent mutants count neither as killed nor as alive; a killed one was none."""
    outcomes = [Outcome.KILLED, Outcome.SURVIVED, Outcome.NOT_REACHED, Outcome.NOT_MADE]
    verdicts = [
        Verdict(key=outcome.value, module="m", line=1, outcome=outcome) for outcome in outcomes
    ]

    assert score(verdicts, {}) == pytest.approx(1 / 3)
    assert score(verdicts, {"survived": "because", "killed": "because"}) == pytest.approx(1 / 2)
    assert "| `m` | 4 | 1 | 1 | 0 | 1 | 0 | 1 | 50.0% |" in markdown(
        verdicts, {"survived": "because"}
    )
    dead = {"survived": Verdict(key="survived", module="m", line=1, outcome=Outcome.KILLED)}
    both = combined([{each.key: each for each in verdicts}, dead])

    assert score(both.values(), {}) == pytest.approx(2 / 3)
    assert "| `m` | 1 | 0 | 0 | 0 | 0 | 0 | 1 | none |" in markdown(verdicts[-1:], {})


def test_every_known_equivalent_is_a_mutation_that_there_is() -> None:
    """A reason for a line that has changed since is judged again."""
    known = known_equivalents()
    sources = Sources({key.partition(":")[0] for key in known})
    keys = {mutation.key for mutation in mutations_in(sources, "")}
    for key, because in known.items():
        assert key in keys
        assert len(because.split()) > 3
