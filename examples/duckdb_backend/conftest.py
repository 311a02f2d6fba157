"""The one line that loads the conformance suite."""

pytest_plugins = ["statestores_conformance"]
