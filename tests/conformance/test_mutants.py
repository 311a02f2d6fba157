"""The mutant zoo: well kept, and a sample of it caught. `make mutants` runs all of it."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.spi import Engine
from statestores_conformance.many_cases import for_each
from statestores_mutants.__main__ import main
from statestores_mutants.registry import Mutant, all_mutants, mutant, sound
from statestores_mutants.report import kept_of, markdown
from statestores_mutants.verdict import Outcome, Verdict

_ROOT = Path(__file__).parents[2]

_REQUIREMENT = re.compile(r"^\*\*([A-Z]+-\d+) \((?:MUST|SHOULD)\)\*\*", re.MULTILINE)

_SAMPLE = [
    "GetManyLeavesMissingOut",
    "SignedByteOrder",
    "LockIsNotReleased",
    "ChecksumsAreNotVerified",
    "OffsetIsASecondBatch",
    "BufferIsNotMergedInReverse",
    "DeletionAtAnEqualTimestampIsLost",
    "AnyRetentionOpens",
]
"""One of each sort: reads, keys, locks, damage, commit, key-value, versioned, opening."""

_MUTANTS = all_mutants()


@cache
def _requirements() -> frozenset[str]:
    """Return every requirement that a test may cite."""
    chapters = (_ROOT / "spec").glob("*.md")
    return frozenset(
        found for path in chapters for found in _REQUIREMENT.findall(path.read_text("utf-8"))
    )


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """Judge the sample, in a process of its own since it runs pytest; give each verdict."""
    result = tmp_path_factory.mktemp("mutants") / "verdicts.json"
    command = [sys.executable, "-m", "statestores_mutants", "--json", str(result)]
    run = subprocess.run(
        [*command, "--only", *_SAMPLE], capture_output=True, text=True, check=False
    )
    assert result.exists(), run.stdout + run.stderr
    return {str(verdict["mutant"]): verdict for verdict in json.loads(result.read_text("utf-8"))}


@pytest.mark.parametrize("name", _SAMPLE)
def test_a_mutant_is_caught_for_what_it_does(
    name: str, sample: dict[str, dict[str, object]]
) -> None:
    """The suite fails, in a test that cites a requirement which the mutant breaks."""
    assert sample[name]["outcome"] == "caught", sample[name]


def test_there_are_enough_mutants() -> None:
    """The number that `conformance/README.md` speaks of does not shrink."""
    assert len(_MUTANTS) >= 100


@for_each("subject", _MUTANTS.values())
def test_a_mutant_says_what_it_is(subject: Mutant) -> None:
    """What it does wrong, what it imitates, and which requirements it breaks."""
    assert subject.wrong.endswith(".")
    assert subject.imitates.startswith("Imitates ")
    assert subject.expected
    assert subject.expected <= _requirements()
    assert issubclass(subject.subject, Engine | EngineStore)


def test_two_mutants_of_one_name_are_refused() -> None:
    """The name is how a report, and the child process, find it."""
    name, animal = next(iter(_MUTANTS.items()))
    with pytest.raises(ValueError, match=name):
        mutant("ENG-1")(animal.subject)


def test_the_published_table_has_every_mutant() -> None:
    """`make mutants` was run since the last one was added, and none survived."""
    table = (_ROOT / "conformance" / "MUTANTS.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))

    assert listed == set(_MUTANTS)
    assert f"**{len(_MUTANTS)} of {len(_MUTANTS)} mutants caught.**" in table


def test_the_figures_of_the_machine_stay(tmp_path: Path) -> None:
    """They come from runs of hours, and a new table of ours does not take them away."""
    table = tmp_path / "MUTANTS.md"
    assert kept_of(table) == ""
    table.write_text("# Ours\n\n| row |\n\n## Made by a machine\n\nfigures\n", "utf-8")

    assert kept_of(table) == "\n## Made by a machine\n\nfigures\n"


def test_the_table_shows_a_survivor() -> None:
    """A mutant that passed is not hidden, nor counted."""
    animal = next(iter(_MUTANTS.values()))
    table = markdown([Verdict(mutant=animal, outcome=Outcome.PASSED, tests=7)])

    assert "**0 of 1 mutants caught.**" in table
    assert "**passed**" in table


@for_each(
    ("outcome", "mutated", "proves"),
    [
        (Outcome.CAUGHT, True, True),
        (Outcome.CAUGHT_ELSEWHERE, True, False),
        (Outcome.PASSED, True, False),
        (Outcome.OWN_MISTAKE, True, False),
        (Outcome.NOT_RUN, True, False),
        (Outcome.PASSED, False, True),
        (Outcome.CAUGHT_ELSEWHERE, False, False),
        (Outcome.NOT_RUN, False, False),
    ],
)
def test_what_counts(outcome: Outcome, *, mutated: bool, proves: bool) -> None:
    """A mutant has to be caught for the right reason, a sound base has to pass."""
    animal = next(iter(_MUTANTS.values()))
    subject = animal if mutated else sound(animal.subject)

    assert Verdict(mutant=subject, outcome=outcome).proves is proves


def test_the_list_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It names what was asked for."""
    code = main(["--only", "locks", "--list"])
    lines = capsys.readouterr().out.splitlines()

    assert code == 0
    assert [text.partition("/")[0] for text in lines] == ["locks"] * len(lines)
    assert len(lines) > 5


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message says where the names are."""
    with pytest.raises(SystemExit):
        main(["--only", "NoSuchMutant"])

    assert "no mutant or theme NoSuchMutant; see --list" in capsys.readouterr().err
