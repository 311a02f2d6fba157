"""A pytest plugin: no garbage is looked for while tests are collected.

Nearly all that is made then stays until the end; the collector would go through thousands of tests
again and again. What tests leave is collected as ever. Loaded by name: by the processes of the
suite's runner, and by this project's own tests.
"""

import gc
from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without the collector, and keep what there is from it afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
