"""Mutants made by a machine: small changes of real modules, each judged by the tests that reach it.

The mutants of `statestores_mutants` show what their authors thought of. These show what nobody
thought of: every comparison, boundary, constant, statement and `raise` of the modules that are
named. What survives is a hole in the tests, or changes nothing that can be seen; the latter stands,
with its reason, in ``equivalent.toml``.

A mutant that breaks an engine, and that the conformance suite lets pass, would be a backend that is
called conforming and loses data.
"""
