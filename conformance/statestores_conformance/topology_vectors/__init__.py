"""Topologies with their inputs and what comes out, as facts, and what runs them.

python -m statestores_conformance.topology_vectors DIRECTORY [--backend B] [--batch N]
"""

from statestores_conformance.topology_vectors.running import differences, load, overrides

__all__ = ["differences", "load", "overrides"]
