"""Operators of Spark's queries whose stores in an object store are resharded, or copied (RSH-21).

An operator's micro-batch has parts for the partitions that its stores have. So a store is taken
only when none of the operator's stores lacks a micro-batch that counts; and in place the operator
is kept out from there on, by a fence in the log of its anchor (`operator_fence`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from statestores.failpoints import reach
from statestores.object_log.changelog import unique_id
from statestores.object_log.driver import run
from statestores.object_log.names import Names
from statestores.object_log.view import View
from statestores.root_document import OPERATORS_DIRECTORY
from statestores.staging.operator_fence import check_settled, keep_out
from statestores.staging.operator_record import OperatorNames
from statestores.staging.operator_steps import Last, find_anchor, find_last
from statestores.state_root import StateRoot
from statestores.storage import ObjectStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledOperator:
    """An operator none of whose stores lacks its last record."""

    names: OperatorNames
    """Its names."""

    anchor: Names
    """The log that commits what it does."""

    last: Last
    """The last record that counts."""


def settled_operators(
    root: StateRoot, storage: ObjectStorage, store: str, view: View
) -> list[SettledOperator]:
    """Return the operators that have *store*, of which *view* was seen before; none lacks anything.

    Raises:
        InvalidArgumentError: A driver has died before it could carry a micro-batch out.
        StateStoreError: It cannot be found out.
    """
    found = []
    prefix = f"{OPERATORS_DIRECTORY}/"
    for operator in sorted({each.name.split("/")[1] for each in storage.list(prefix)}):
        names = OperatorNames(operator, storage.url)
        chosen = run(find_anchor(names), storage)
        if chosen is None:
            continue  # its first driver has chosen none yet, and so has no part in any store
        anchor = root.object_log(chosen).names
        last = run(find_last(names, anchor, ()), storage)
        told = {names.stream, names.membership}.intersection(view.batches)
        if told or (last.record is not None and store in last.record.stores):
            run(
                check_settled(anchor, last, store, view, lambda name: root.object_log(name).names),
                storage,
            )
            found.append(SettledOperator(names=names, anchor=anchor, last=last))
    return found


def keep_operators_out(
    operators: Iterable[SettledOperator], storage: ObjectStorage, store: str
) -> None:
    """Have none of *operators* commit a micro-batch that *store* would have to take unseen.

    Raises:
        CommitConflictError: One has committed a micro-batch since.
        StateStoreError: Nobody can tell, and the store is not to be resharded now.
    """
    for each in operators:
        if each.anchor.store != store:
            run(keep_out(each.anchor, each.last, unique_id()), storage)
            reach("objects.reshard.fenced")
