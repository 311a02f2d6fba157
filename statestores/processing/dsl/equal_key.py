"""The nodes of a join of two tables by equal keys: one for each side, and one where they meet."""

from collections.abc import Callable
from typing import Any

from statestores.processing.dsl.builder import check_how
from statestores.processing.dsl.nodes import TableNode
from statestores.processing.operators.operator import Pass
from statestores.processing.operators.table_joins import How, TableJoinSide, joined_lookup
from statestores.processing.operators.tables import MakeLookup


def equal_key_join(
    left: TableNode[Any, Any],
    right: TableNode[Any, Any],
    joiner: Callable[[Any, Any], Any],
    how: How,
    *,
    name: str,
) -> tuple[str, MakeLookup]:
    """Add a join of *left* with the rows of *right*; return its node, and what finds its rows."""
    check_how(how, ("inner", "left", "outer"))
    builder = left._builder
    sides = tuple(
        builder.step(
            f"{how}-join-{'left' if is_left else 'right'}",
            (this._node,),
            lambda this=this, that=that, is_left=is_left: TableJoinSide(  # type: ignore[misc]
                joiner, how, that._lookup, is_left=is_left, versioned=this._is_versioned
            ),
            name=f"{name}.{'left' if is_left else 'right'}",
            stores=(*left._stores, *right._stores),
            form=(),
        )
        for this, that, is_left in ((left, right, True), (right, left, False))
    )
    node = builder.step("join", sides, Pass, name=name, co_partitioned=sides)
    return node, joined_lookup(left._lookup, right._lookup, joiner, how)
