"""Loads the conformance suite, and starts a server for the tests."""

import sys
from pathlib import Path

# The tests of the repository start the same server.
sys.path.append(str(Path(__file__).parent / "tests" / "kit"))

pytest_plugins = ["statestores_conformance"]
