"""``python -m statestores_mutants``: run the suite against every mutant; none may survive."""

import argparse
import sys
from pathlib import Path

from statestores_mutants.herd import judge_all
from statestores_mutants.registry import Mutant, all_mutants, sound_bases
from statestores_mutants.report import kept_of, line, markdown, write_json
from statestores_mutants.verdict import Verdict


def main(arguments: list[str] | None = None) -> int:
    """Run, print a line for each mutant and the number caught; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m statestores_mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="mutants or themes, by name")
    parser.add_argument("--list", action="store_true", help="print what there is, and run nothing")
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time")
    parser.add_argument("--json", type=Path, help="write the verdicts here")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    chosen = parser.parse_args(arguments)
    try:
        subjects = _chosen(chosen.only)
    except LookupError as error:
        parser.error(str(error))
    if chosen.list:
        for mutant in subjects:
            sys.stdout.write(f"{mutant.theme}/{mutant.name}: {mutant.wrong}\n")
        return 0
    verdicts = _judge_all(subjects, chosen.jobs)
    if chosen.json is not None:
        write_json(verdicts, chosen.json)
    if chosen.markdown is not None:
        text = markdown(verdicts) + kept_of(chosen.markdown)
        chosen.markdown.write_text(text, encoding="utf-8")
    good = sum(verdict.proves for verdict in verdicts)
    sys.stdout.write(f"{good} of {len(verdicts)} are as they should be\n")
    return 0 if good == len(verdicts) else 1


def _chosen(names: list[str] | None) -> list[Mutant]:
    """Return the mutants that *names* asks for; without names all, and before them the bases.

    Raises:
        LookupError: A name belongs to no mutant and no theme.
    """
    mutants = sound_bases() | all_mutants()
    if names is None:
        return list(mutants.values())
    unknown = {*names} - {*mutants} - {mutant.theme for mutant in mutants.values()}
    if unknown:
        raise LookupError(f"there is no mutant or theme {', '.join(sorted(unknown))}; see --list")
    return [mutant for mutant in mutants.values() if {mutant.name, mutant.theme} & {*names}]


def _judge_all(subjects: list[Mutant], jobs: int) -> list[Verdict]:
    """Judge *subjects*, some at a time; print each verdict, and return them in their order."""
    found: dict[str, Verdict] = {}

    def report(verdict: Verdict) -> None:
        found[verdict.mutant.name] = verdict
        sys.stdout.write(line(verdict) + "\n")
        sys.stdout.flush()

    judge_all(subjects, jobs, report)
    return [found[subject.name] for subject in subjects]


if __name__ == "__main__":
    sys.exit(main())
