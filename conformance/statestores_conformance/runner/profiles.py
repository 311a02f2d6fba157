"""The profiles of a run: how much it tries, and how long one test may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How hard a run tries."""

    name: str
    """Its name on a command line."""

    examples: int
    """Hypothesis's ``max_examples``; the state machines take a share of it."""

    steps: int
    """Hypothesis's ``stateful_step_count``: operations of one example."""

    phases: tuple[str, ...] = ("explicit", "reuse", "generate", "shrink")
    """Hypothesis's phases: shrinking a failure takes minutes where a step goes to disk."""

    share: float
    """The share of the usual trials of kills, damage and the like."""

    test_time_limit_s: float
    """After this long without an event a test counts as hanging, and its process is killed."""

    in_memory: bool = False
    """Whether the directories are in memory, if the machine has such a place: waiting for the disk
    would be most of a short run. Kills leave memory as they leave a page cache."""

    soak: bool = False
    """Whether the tests marked ``soak`` run, and rounds follow one another with new seeds."""


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            name="quick",
            examples=20,
            steps=25,
            phases=("explicit", "generate"),
            share=0.2,
            test_time_limit_s=60,
            in_memory=True,
        ),
        Profile(name="full", examples=200, steps=50, share=1.0, test_time_limit_s=300),
        Profile(
            name="soak", examples=1_000, steps=100, share=1.0, test_time_limit_s=3_600, soak=True
        ),
    )
}
"""All profiles by name, the shortest first."""
