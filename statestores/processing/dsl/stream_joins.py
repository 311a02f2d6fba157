"""The nodes of a stream's joins. Each function returns the node, its name and the key serde."""

from collections.abc import Callable
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTopologyError, InvalidTypeError
from statestores.processing.dsl.builder import Builder, check_how
from statestores.processing.dsl.global_table import GlobalTable
from statestores.processing.dsl.nodes import StreamNode, TableNode
from statestores.processing.fields import Expression, Selector, is_expression, selector
from statestores.processing.functions import check_function
from statestores.processing.operators.operator import Pass
from statestores.processing.operators.stream_stream import JoinWindow, StreamJoin, StreamJoinSide
from statestores.processing.operators.stream_table import AsOfJoin, StreamTableJoin
from statestores.processing.serdes import RecordCodec
from statestores.processing.stores import join_window_store
from statestores.processing.windows import check_duration
from statestores.serdes import json
from statestores.spi import KeyValue, Serde, Versioned

Made = tuple[str, str, Serde[Any] | None]


def with_stream(
    left: StreamNode[Any, Any],
    right: StreamNode[Any, Any],
    joiner: Callable[[Any, Any], Any],
    *,
    window: JoinWindow,
    how: Any,
    name: str | None,
) -> Made:
    """Add a join of two streams."""
    check_how(how, ("inner", "left", "outer"))
    if not isinstance(window, JoinWindow):
        raise InvalidTypeError(f"within is made by within, such as within(60_000), got {window!r}")
    check_function("a joiner", joiner, ("value", "other"))
    builder: Builder = left._builder
    chosen = name or f"{left._origin}-join-{right._origin}"
    key = left._key or right._key or json
    left_value, right_value = left._value or json, right._value or json
    retention_ms = window.before_ms + window.after_ms + window.grace_ms + 1
    size_ms = window.before_ms + window.after_ms + 1
    stores = [
        join_window_store(
            f"{chosen}-{side}", key, value, size_ms=size_ms, retention_ms=retention_ms
        )
        for side, value in (("left", left_value), ("right", right_value))
    ]
    waiting = None if how == "inner" else KeyValue(f"{chosen}-waiting")
    join = StreamJoin(
        name=chosen,
        joiner=joiner,
        how=how,
        window=window,
        left_store=stores[0].name,
        right_store=stores[1].name,
        waiting=None if waiting is None else waiting.name,
        left_codec=RecordCodec(key, left_value),
        right_codec=RecordCodec(key, right_value),
    )
    kept = (*stores, *(() if waiting is None else (waiting,)))
    sides = []
    for side, stream in (("left", left), ("right", right)):
        is_left = side == "left"
        comes_alone = how == "outer" or (how == "left" and is_left)
        parent = stream._partitioned(f"{chosen}-{side}", key, keeps_keyless=comes_alone)
        sides.append(
            builder.step(
                f"{how}-join-{side}",
                (parent,),
                lambda is_left=is_left: StreamJoinSide(join, is_left=is_left),  # type: ignore[misc]
                name=f"{chosen}.{side}",
                stores=kept,
                own_keys=() if waiting is None else (waiting.name,),
                form=(("before_ms", window.before_ms), ("after_ms", window.after_ms)),
                settings=(
                    ("before_ms", str(window.before_ms)),
                    ("after_ms", str(window.after_ms)),
                    ("grace_ms", str(window.grace_ms)),
                ),
            )
        )
    parents = (sides[0], sides[1])
    node = builder.step("join", parents, Pass, name=chosen, co_partitioned=parents)
    return node, chosen, key


def with_table(
    stream: StreamNode[Any, Any],
    table: TableNode[Any, Any] | GlobalTable[Any, Any],
    joiner: Callable[[Any, Any], Any],
    *,
    key: Selector | None,
    how: Any,
    name: str | None,
) -> Made:
    """Add a join with the rows of a table, or of a global one."""
    check_how(how, ("inner", "left"))
    check_function("a joiner", joiner, ("value", "other"))
    is_left_join = how == "left"
    if isinstance(table, GlobalTable):
        if key is None:
            raise InvalidArgumentError(
                "a join with a global table needs key=..., which takes from a record the key of "
                "its row"
            )
        return _with_global(stream, table, joiner, selector(key), is_left_join, name)
    if key is not None:
        raise InvalidArgumentError(
            "a join with a table is by the record's key; rekey the stream first, or use a global "
            "table"
        )
    table = table._with_rows()
    if table._is_versioned:
        return as_of(stream, table, joiner, how=how, wait_ms=0, name=name)
    chosen = name or f"{stream._origin}-join-{table._origin}"
    parent = stream._partitioned(chosen, table._key or json, keeps_keyless=how == "left")
    lookup = table._lookup
    node = stream._builder.step(
        f"{how}-join-table",
        (parent,),
        lambda: StreamTableJoin(joiner, lookup, is_left_join=is_left_join),
        name=chosen,
        stores=table._stores,
        co_partitioned=(parent, table._node),
    )
    return node, chosen, stream._key or table._key


def _with_global(
    stream: StreamNode[Any, Any],
    table: GlobalTable[Any, Any],
    joiner: Callable[[Any, Any], Any],
    key: Callable[[Any], Any],
    is_left_join: bool,  # noqa: FBT001  # private, and named by its caller
    name: str | None,
) -> Made:
    chosen = name or f"{stream._origin}-join-{table._origin}"
    store = table._store
    codec = RecordCodec(json, json)

    def make() -> StreamTableJoin:
        if isinstance(store, Versioned):
            return AsOfJoin(
                joiner,
                store.name,
                codec,
                is_left_join=is_left_join,
                wait_ms=0,
                waiting=None,
                key=key,
            )
        return StreamTableJoin(joiner, table._lookup, is_left_join=is_left_join, key=key)

    node = stream._builder.step(
        "join-global-table",
        (stream._node,),
        make,
        name=chosen,
        global_stores=(store.name,),
    )
    return node, chosen, stream._key


def as_of(
    stream: StreamNode[Any, Any],
    table: TableNode[Any, Any],
    joiner: Callable[[Any, Any], Any] | Expression,
    *,
    how: Any,
    wait_ms: int,
    name: str | None,
) -> Made:
    """Add a join with the rows that were valid at the records' times."""
    check_how(how, ("inner", "left"))
    check_duration("wait_ms", wait_ms)
    if not isinstance(table, TableNode):
        raise InvalidTypeError(f"a stream joins a table as of its times, got {table!r}")
    chosen = name or f"{stream._origin}-join-{table._origin}"
    store = next((each for each in table._stores if isinstance(each, Versioned)), None)
    if not table._is_versioned or store is None:
        raise InvalidTopologyError(
            f"{chosen!r} looks rows up as of a time, and the table {table._origin!r} keeps no "
            "history; declare it with a statestores.Versioned store"
        )
    if wait_ms > store.history_retention_ms:
        raise InvalidTopologyError(
            f"{chosen!r} waits {wait_ms} ms, and {store.name!r} keeps history for "
            f"{store.history_retention_ms} ms; wait no longer than that"
        )
    parent = stream._partitioned(chosen, table._key or json, keeps_keyless=how == "left")
    serdes = stream._key or table._key or json, stream._value or json
    codec = RecordCodec(*serdes)
    waiting = KeyValue(f"{chosen}-waiting") if wait_ms else None
    versions, derived = store.name, table._lookup if table._is_derived else None
    join = _function(joiner, stream, table)
    node = stream._builder.step(
        f"{how}-join-as-of",
        (parent,),
        lambda: AsOfJoin(
            join,
            versions,
            codec,
            is_left_join=how == "left",
            wait_ms=wait_ms,
            waiting=None if waiting is None else waiting.name,
            derived=derived,
        ),
        name=chosen,
        stores=(*table._stores, *(() if waiting is None else (waiting,))),
        own_keys=() if waiting is None else (waiting.name,),
        waiting=None if waiting is None else serdes,
        co_partitioned=(parent, table._node),
        settings=(("wait_ms", str(wait_ms)),),
    )
    return node, chosen, stream._key or table._key


def _function(
    joiner: Callable[[Any, Any], Any] | Expression,
    stream: StreamNode[Any, Any],
    table: TableNode[Any, Any],
) -> Any:
    """Return the function of two values that is given, or that an expression stands for."""
    if not is_expression(joiner):
        check_function("a joiner", joiner, ("value", "other"))
        return joiner
    from statestores.processing.columns.expressions import OfPair  # noqa: PLC0415  # Arrow

    return OfPair(joiner, stream._value, table._value)
