"""Running a state machine within a test."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

_SHARE = {False: 2, True: 10}
"""A machine is that many times as dear as a plain random test: one that goes to disk is dearer."""


def run_machine(make_machine: Callable[[], RuleBasedStateMachine], *, persistent: bool) -> None:
    """Run examples of the machine, as many as the Hypothesis profile allows for its price."""
    current = settings()
    run_state_machine_as_test(
        make_machine,  # type: ignore[arg-type]  # documented: any callable that returns one
        settings=settings(current, max_examples=max(1, current.max_examples // _SHARE[persistent])),
    )
