"""The runner: a backend is proved in processes that may die, and the result is a `Report`.

Read `run` first, then `supervisor` and `child`, which talk over two pipes.
"""

from statestores_conformance.runner.profiles import PROFILES, Profile
from statestores_conformance.runner.run import Progress, run_conformance

__all__ = ["PROFILES", "Profile", "Progress", "run_conformance"]
