"""The nodes of a join of two tables by equal keys: one for each side, and one where they meet."""

from collections.abc import Callable
from typing import Any

from statestores.processing.dsl.builder import check_how
from statestores.processing.dsl.nodes import TableNode
from statestores.processing.operators.operator import Pass
from statestores.processing.operators.table_joins import How, TableJoinSide, joined_lookup
from statestores.processing.operators.tables import MakeLookup


def meet_again(left: TableNode[Any, Any], right: TableNode[Any, Any]) -> bool:
    """Whether a change of a row that one side finds reaches the other one as well.

    So it is with a table that is joined with itself, or with what is made of it without a topic in
    between: then a side may find what the other has yet to hear of.
    """
    return any(_keepers(one) & _upstream(other) for one, other in ((left, right), (right, left)))


def _keepers(table: TableNode[Any, Any]) -> set[str]:
    """Return the steps that change what is found in *table*: the first to have its stores.

    Processors come before or after it, whatever they do with its rows: a change is none of theirs.
    """
    nodes = [node for node in table._builder.nodes.values() if node.kind != "process"]
    found = set[str]()
    for store in table._stores:
        having = [node for node in nodes if store.name in {each.name for each in node.stores}]
        found |= {node.name for node in having if node.kind == having[0].kind}
    return found


def _upstream(table: TableNode[Any, Any]) -> set[str]:
    """Return the step that gives the changes of *table*, and those before it in the same task."""
    nodes, found, ahead = table._builder.nodes, set[str](), [table._node]
    while ahead:
        name = ahead.pop()
        if name not in found and name in nodes:
            found.add(name)
            ahead += nodes[name].parents
    return found


def equal_key_join(
    left: TableNode[Any, Any],
    right: TableNode[Any, Any],
    joiner: Callable[[Any, Any], Any],
    how: How,
    *,
    name: str,
    is_kept: bool,
) -> tuple[str, MakeLookup]:
    """Add a join of *left* with the rows of *right*; return its node, and what finds its rows.

    What it gives on *is_kept* by the step behind it: always where `meet_again`.
    """
    check_how(how, ("inner", "left", "outer"))
    builder = left._builder
    sides = tuple(
        builder.step(
            f"{how}-join-{'left' if is_left else 'right'}",
            (this._node,),
            lambda this=this, that=that, is_left=is_left: TableJoinSide(  # type: ignore[misc]
                joiner,
                how,
                that._lookup,
                is_left=is_left,
                versioned=this._is_versioned,
                is_kept=is_kept,
            ),
            name=f"{name}.{'left' if is_left else 'right'}",
            stores=(*left._stores, *right._stores),
            form=(),
        )
        for this, that, is_left in ((left, right, True), (right, left, False))
    )
    node = builder.step("join", sides, Pass, name=name, co_partitioned=sides)
    return node, joined_lookup(left._lookup, right._lookup, joiner, how)
