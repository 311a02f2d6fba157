"""Engines and stores that are wrong in one way each, to prove that the conformance suite finds it.

Run from a checkout: ``python -m statestores_mutants``. Read `file_engine` first, the sound engine
that most of them are made of; then any module of `zoo`; `verdict` says what counts as caught.
"""

from statestores_mutants.registry import Mutant, all_mutants, mutant

__all__ = ["Mutant", "all_mutants", "mutant"]
