"""The command `verify`: says in words what is wrong with a store, and changes nothing.

Read `partition_checks` first: it puts the checks in their order.
"""

from statestores.cli.verification.command import verify

__all__ = ["verify"]
