"""The nodes of a join by a foreign key: there and back, through two internal topics."""

from collections.abc import Callable
from typing import Any

from statestores.processing.dsl.nodes import TableNode
from statestores.processing.functions import check_function
from statestores.processing.operators.foreign_key import (
    Answer,
    JoinAnswer,
    RightChanged,
    Subscribe,
)
from statestores.processing.operators.operator import Pass
from statestores.serdes import json, raw
from statestores.spi import KeyValue


def foreign_key_join(
    left: TableNode[Any, Any],
    right: TableNode[Any, Any],
    foreign_key: Callable[[Any], Any],
    joiner: Callable[[Any, Any], Any],
    *,
    is_left_join: bool,
    name: str,
) -> str:
    """Add a join of *left* with the rows of *right* that it names; return its node."""
    check_function("foreign_key", foreign_key, ("value",))
    check_function("a joiner", joiner, ("value", "other"))
    builder = left._builder
    left_key, left_value = left._key or json, left._value or json
    right_key, right_value = right._key or json, right._value or json
    left_lookup, right_lookup = left._lookup, right._lookup
    is_left_versioned, is_right_versioned = left._is_versioned, right._is_versioned
    subscriptions = KeyValue(f"{name}-subscriptions")
    owed = None if is_left_join else KeyValue(f"{name}-owed")
    owed_name = None if owed is None else owed.name
    of_inner = () if owed is None else (owed,)
    own_keys = tuple(store.name for store in (subscriptions, *of_inner))
    subscribed = builder.step(
        "subscribe",
        (left._node,),
        lambda: Subscribe(
            foreign_key,
            left_key,
            left_value,
            right_key,
            versioned=is_left_versioned,
            owed=owed_name,
        ),
        name=f"{name}.subscribe",
        stores=of_inner,
        own_keys=own_keys,
        form=(),
        follows_rows=True,
    )
    arrived = builder.repartition(
        subscribed, f"{name}-subscription", raw, raw, partitioner=_partitioner(right)
    )
    answered = builder.step(
        "answer",
        (arrived,),
        lambda: Answer(right_lookup, right_key, right_value, subscriptions.name),
        name=f"{name}.answer",
        stores=(subscriptions, *right._stores),
        own_keys=own_keys,
        co_partitioned=(arrived, right._node),
    )
    changed = builder.step(
        "right-changed",
        (right._node,),
        lambda: RightChanged(
            right_lookup,
            right_key,
            right_value,
            subscriptions.name,
            versioned=is_right_versioned,
        ),
        name=f"{name}.right",
        stores=(subscriptions, *right._stores),
        own_keys=own_keys,
    )
    answers = builder.step("merge", (answered, changed), Pass, name=f"{name}.answers")
    back = builder.repartition(answers, f"{name}-answer", raw, raw, partitioner=_partitioner(left))
    return builder.step(
        f"{'left' if is_left_join else 'inner'}-join-foreign-key",
        (back,),
        lambda: JoinAnswer(left_lookup, left_key, left_value, right_value, joiner, owed=owed_name),
        name=name,
        stores=(*left._stores, *of_inner),
        own_keys=own_keys,
        form=(),
        co_partitioned=(back, left._node),
    )


def _partitioner(table: TableNode[Any, Any]) -> str:
    """Return how the rows of *table* are partitioned: what goes there has to be alike."""
    return table._stores[0].partitioner if table._stores else "murmur2"
