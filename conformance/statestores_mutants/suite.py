"""The test class of whatever mutant the child process has chosen: the whole suite, as always."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from statestores_conformance import BackendTests, OpenEngine
from statestores_conformance.runner.profiles import PROFILES
from statestores_mutants.registry import Mutant

# Repeatable, and ended by the first failure: nobody reads a shrunk one. As many examples as in a
# quick run, and as `make test` draws of the suite: what a mutant proves is proved of those.
settings.register_profile(
    "mutants",
    max_examples=PROFILES["quick"].examples,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("mutants")


class TestMutant(BackendTests):
    """Everything that can be proved of a backend; stores come from the patched opening."""

    @pytest.fixture
    def tmp_path(self, mutant_directory: Path) -> Iterator[Path]:
        """Give a directory of this process: pytest's own are shared by all of them."""
        with tempfile.TemporaryDirectory(
            dir=mutant_directory, ignore_cleanup_errors=True
        ) as directory:
            yield Path(directory)

    @pytest.fixture
    def open_engine(self, mutant: Mutant) -> OpenEngine:
        """Open the engine of the mutant."""
        return mutant.engine.open
