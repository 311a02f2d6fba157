"""How hard a run tries: the seed that its random parts start from, and how often they try.

Both come from the environment, since the parts that use them run in processes of several depths.
Nothing is set in an ordinary pytest run: then every number is the one written in the test.
"""

import os

SEED_VARIABLE = "STATESTORES_CONFORMANCE_SEED"
"""Replaces the fixed seeds of the tests with ones that follow from it."""

SHARE_VARIABLE = "STATESTORES_CONFORMANCE_SHARE"
"""The share of the usual trials that are made: 1 for all, 0.2 for a fifth."""


def trials(usual: int, *, least: int = 1) -> int:
    """Return how many of the *usual* trials to make; never fewer than *least*."""
    return max(least, min(usual, round(usual * float(os.environ.get(SHARE_VARIABLE, "1")))))


def seed(usual: int) -> int:
    """Return the seed of a test: the *usual* one, or one that follows from the run's."""
    chosen = os.environ.get(SEED_VARIABLE)
    return usual if chosen is None else (int(chosen) * 1_000_003 + usual) % 2**32
