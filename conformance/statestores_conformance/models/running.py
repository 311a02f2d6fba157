"""Running a state machine within a test."""

import random
from collections.abc import Callable
from typing import Any, Protocol

import hypothesis
from hypothesis import HealthCheck, core, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from statestores_conformance.scripts.reproduction import write_reproduction
from statestores_conformance.scripts.script import Script

SHARE = {False: 2, True: 10}
"""How many times as much as a plain random test a machine costs: more if it goes to disk."""

_SEEDS = 2**32


class ScriptedMachine(Protocol):
    """A machine whose every step is in a script."""

    script: Script

    @property
    def openers(self) -> dict[str, Callable[..., Any]]:
        """The names of the script that open an engine or a store."""


def seed_of_run() -> int | None:
    """Return the seed that Hypothesis was given, or a new one; ``None`` when it needs none."""
    if settings().derandomize:
        return None
    forced: object = core.global_force_seed
    return forced if isinstance(forced, int) else random.randrange(_SEEDS)  # noqa: S311


def unhurried(examples: int) -> settings:
    """Return the running test's settings, for that many examples and any time they take.

    Hypothesis's own profile, which an author's run has, limits the time of an example. On a busy
    machine that fails, and says nothing about the engine.
    """
    current = settings()
    return settings(
        current,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[*current.suppress_health_check, HealthCheck.too_slow],
        report_multiple_bugs=False,
    )


def run_machine(make_machine: Callable[[], RuleBasedStateMachine], *, persistent: bool) -> None:
    """Run as many examples of the machine as the Hypothesis profile allows for its cost.

    When one fails, Hypothesis shows the steps that are left after shrinking, and notes with them
    give the seed and the file that performs the steps without Hypothesis.
    """
    made: list[Any] = []

    def make() -> RuleBasedStateMachine:
        made[:] = [make_machine()]
        return made[0]  # type: ignore[no-any-return]  # it is what was just put in

    seed = seed_of_run()
    examples = max(1, settings().max_examples // SHARE[persistent])
    try:
        run_state_machine_as_test(
            make if seed is None else hypothesis.seed(seed)(make),  # type: ignore[arg-type]  # documented: any callable that returns one
            settings=unhurried(examples),
        )
    except Exception as error:
        # The last example that Hypothesis runs is the one that it shows.
        if made and made[0].script.failed:
            explain(error, made[0].script, type(made[0]).__name__, made[0].openers, seed)
        raise


def explain(
    error: Exception,
    script: Script,
    what: str,
    openers: dict[str, Callable[..., Any]],
    seed: int | None,
) -> None:
    """Write the reproduction of *script*, and note on *error* where it is."""
    title = f"{what}: {type(error).__name__}."
    path = write_reproduction(script, title=title, openers=openers, seed=seed)
    if seed is not None:
        error.add_note(f"seed {seed}: run again with --hypothesis-seed={seed}")
    error.add_note(f"reproduction: {path}")
