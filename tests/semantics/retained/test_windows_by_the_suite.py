"""Windows that a store keeps in memory, judged as a stranger's are.

The suite opens stores over an engine without a cache, so that the engine is asked.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores_conformance.stores.retained.window_commits import WindowCommitTests
from statestores_conformance.subjects.retained_stores import WindowStores
from statestores_conformance.subjects.store_fixtures import closed_at_the_end


class TestCommittedWindows(WindowCommitTests):
    """What is read of windows that were committed, from the memory of the store."""

    @pytest.fixture
    def window_stores(self, tmp_path: Path) -> Iterator[WindowStores]:
        """Open window stores that keep rows, over the memory engine."""
        memory = load_backend("memory")
        yield from closed_at_the_end(
            WindowStores(
                tmp_path,
                lambda path, specification: open_on_engine(memory.open(path), specification),
            )
        )
