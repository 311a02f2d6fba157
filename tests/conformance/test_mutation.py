"""The machine that makes mutants: what it changes, and that its verdicts are true."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from statestores_mutation.exchange import NotExchangedError, exchange
from statestores_mutation.mutations import Mutation, mutated, mutations_of
from statestores_mutation.verdicts import Outcome, Verdict, known_equivalents, markdown, score

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


def test_only_what_functions_do_is_changed() -> None:
    """Constants of the module, defaults, annotations, assertions and docstrings stay."""
    lines = {mutation.line for mutation in mutations_of("mutated_here", _SOURCE)}

    assert lines == {8, 9, 11, 15, 16, 17, 21, 26, 30, 32, 33}


def test_each_mutation_has_a_name_of_its_own() -> None:
    """Keys tell equal changes in equal lines apart, and do not name lines."""
    source = "def f(a, b):\n    a += 1\n    a += 1\n    return a\n"
    mutations = mutations_of("m", source)
    keys = [mutation.key for mutation in mutations]

    assert len(set(keys)) == len(keys)
    assert [mutation.key for mutation in mutations_of("m", "\n" + source)] == keys


def test_every_mutation_compiles_and_differs() -> None:
    """What is made is a program, and another one."""
    for mutation in mutations_of("mutated_here", _SOURCE):
        code = compile(mutated(_SOURCE, mutation), "mutated_here.py", "exec")

        assert code != compile(_SOURCE, "mutated_here.py", "exec"), mutation.key


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


def test_verdicts_are_true_and_a_run_goes_on(tmp_path: Path) -> None:
    """Killed, survived and not reached are told apart; what is known is not run again."""
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


def test_a_score_leaves_out_what_nobody_can_see() -> None:
    """Equivalent mutants count neither as killed nor as alive; a killed one was none."""
    outcomes = [Outcome.KILLED, Outcome.SURVIVED, Outcome.NOT_REACHED, Outcome.NOT_MADE]
    verdicts = [
        Verdict(key=outcome.value, module="m", line=1, outcome=outcome) for outcome in outcomes
    ]

    assert score(verdicts, {}) == pytest.approx(1 / 3)
    assert score(verdicts, {"survived": "because", "killed": "because"}) == pytest.approx(1 / 2)
    assert "| `m` | 4 | 1 | 1 | 0 | 1 | 1 | 50.0% |" in markdown(verdicts, {"survived": "because"})
    assert "| `m` | 1 | 0 | 0 | 0 | 0 | 1 | none |" in markdown(verdicts[-1:], {})


def test_every_known_equivalent_is_a_mutation_that_there_is() -> None:
    """A reason for a line that has changed since is judged again."""
    for key, because in known_equivalents().items():
        module = key.partition(":")[0]
        path = Path(__import__(module, fromlist=["x"]).__file__ or "")
        keys = {mutation.key for mutation in mutations_of(module, path.read_text("utf-8"))}

        assert key in keys
        assert len(because.split()) > 3
