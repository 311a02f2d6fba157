"""Random tests of code that another subject's random tests have gone through already."""

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import settings

_SHARE = 2
_SOAK_EXAMPLES = 1_000
"""With so many examples a profile is asked for thoroughness, and nothing is left out."""


@contextmanager
def fewer_examples() -> Iterator[None]:
    """Let the profile in force have half as many examples, unless it is one of long runs."""
    usual = settings()
    if usual.max_examples >= _SOAK_EXAMPLES:
        yield
        return
    name = settings.get_current_profile_name()
    settings.register_profile("fewer", usual, max_examples=usual.max_examples // _SHARE)
    settings.load_profile("fewer")
    try:
        yield
    finally:
        settings.load_profile(name)
