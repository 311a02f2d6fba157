"""Queries that take one DataFrame twice, beside the answers that its rows give."""

# ruff: noqa: S608  # queries made of the constants of this module

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame

SETTING: Final = "spark.sql.python.filterPushdown.enabled"
"""The setting with which Spark offers filters to Python sources: the user's, off at first."""

ROWS: Final = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
"""The rows of every DataFrame that is asked, in columns of these names: key and value."""

KEYS: Final = [key for key, _ in ROWS]


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter that Spark offers to sources, and the keys that it lets pass."""

    sql: str
    """The filter."""

    keys: tuple[str, ...]
    """The keys, in order."""


CONDITIONS: Final = (
    Condition("key = 'a'", ("a",)),
    Condition("key = 'b'", ("b",)),
    Condition("key IN ('b', 'c')", ("b", "c")),
    Condition("key > 'b'", ("c", "d")),
    Condition("key <= 'c'", ("a", "b", "c")),
    Condition("startswith(key, 'd')", ("d",)),
    Condition("key = 'x'", ()),
    Condition("value >= 3", ("c", "d")),
)

Answers = tuple[Any, Any]  # what was found, and what is right
Query = Callable[[DataFrame, Condition, Condition], Answers]
_VIEW: Final = "asked_twice"


def wrong_queries(
    frame: DataFrame, rng: random.Random | None = None, *, count: int | None = None
) -> dict[str, Answers]:
    """Ask *frame* every query, one after the other, and return those with a wrong answer.

    *rng* chooses the conditions and the order, and only *count* of the queries.
    """
    one, other = CONDITIONS[:2]
    queries = list(_QUERIES)
    if rng is not None:
        one, other = rng.choices(CONDITIONS, k=2)
        rng.shuffle(queries)
        queries = queries[:count]
    wrong = {}
    for query in queries:
        found, right = query(frame, one, other)
        if found != right:
            wrong[query.__name__] = (found, right)
    return wrong


def _keys(frame: DataFrame) -> list[str]:
    return sorted(row.key for row in frame.select("key").collect())


def _of_view(frame: DataFrame, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of *query*, which names the view that *frame* is."""
    frame.createOrReplaceTempView(_VIEW)
    try:
        return sorted(tuple(row) for row in frame.sparkSession.sql(query).collect())
    finally:
        frame.sparkSession.catalog.dropTempView(_VIEW)


def _without(keys: Iterable[str]) -> list[str]:
    return [key for key in KEYS if key not in set(keys)]


def union(frame: DataFrame, one: Condition, other: Condition) -> Answers:
    """Two filters in one query."""
    found = _keys(frame.where(one.sql).union(frame.where(other.sql)))
    return found, sorted([*one.keys, *other.keys])


def filter_then_all(frame: DataFrame, one: Condition, _: Condition) -> Answers:
    """A look at some of the rows, then at all of them."""
    return (frame.where(one.sql).count(), frame.count()), (len(one.keys), len(KEYS))


def made_first_used_later(frame: DataFrame, one: Condition, other: Condition) -> Answers:
    """Two names for two filters of it, used in turn."""
    first, second = frame.where(one.sql), frame.where(other.sql)
    found = [_keys(first), _keys(second), _keys(first)]
    return found, [[*one.keys], [*other.keys], [*one.keys]]


def explained(frame: DataFrame, one: Condition, _: Condition) -> Answers:
    """A plan that was only looked at."""
    frame.where(one.sql).explain()
    return _keys(frame), KEYS


def cross_join(frame: DataFrame, one: Condition, other: Condition) -> Answers:
    """Some rows beside some others."""
    second = frame.where(other.sql).selectExpr("key AS other")
    found = sorted(map(tuple, frame.where(one.sql).select("key").crossJoin(second).collect()))
    return found, [(first, second) for first in one.keys for second in other.keys]


def self_join(frame: DataFrame, one: Condition, _: Condition) -> Answers:
    """Some rows beside all of them, by key."""
    return _keys(frame.where(one.sql).select("key").join(frame, "key")), [*one.keys]


def anti_join(frame: DataFrame, one: Condition, _: Condition) -> Answers:
    """All rows but some."""
    return _keys(frame.join(frame.where(one.sql), "key", "left_anti")), _without(one.keys)


def difference(frame: DataFrame, one: Condition, _: Condition) -> Answers:
    """The same, said otherwise."""
    return _keys(frame.exceptAll(frame.where(one.sql))), _without(one.keys)


def subqueries(frame: DataFrame, one: Condition, other: Condition) -> Answers:
    """Three of them, each with rows of its own."""
    found = _of_view(
        frame,
        f"SELECT (SELECT count(*) FROM {_VIEW}), (SELECT count(*) FROM {_VIEW} WHERE {one.sql}), "
        f"(SELECT count(*) FROM {_VIEW} WHERE {other.sql})",
    )
    return found, [(len(KEYS), len(one.keys), len(other.keys))]


def not_in(frame: DataFrame, one: Condition, _: Condition) -> Answers:
    """A subquery that says what is left out."""
    query = f"SELECT key FROM {_VIEW} WHERE key NOT IN (SELECT key FROM {_VIEW} WHERE {one.sql})"
    return _of_view(frame, query), [(key,) for key in _without(one.keys)]


def view(frame: DataFrame, one: Condition, other: Condition) -> Answers:
    """A name in SQL, used three times."""
    found = _of_view(
        frame,
        f"SELECT key FROM {_VIEW} WHERE {one.sql} UNION ALL "
        f"SELECT key FROM {_VIEW} WHERE {other.sql} UNION ALL SELECT key FROM {_VIEW}",
    )
    return found, sorted((key,) for key in [*one.keys, *other.keys, *KEYS])


def cached(frame: DataFrame, one: Condition, other: Condition) -> Answers:
    """Some rows kept by Spark, and the others read."""
    kept = frame.where(one.sql).cache()
    try:
        found = [_keys(kept), _keys(frame.where(other.sql)), _keys(frame), _keys(kept)]
    finally:
        kept.unpersist()
    return found, [[*one.keys], [*other.keys], KEYS, [*one.keys]]


_QUERIES: Final[tuple[Query, ...]] = (
    union,
    filter_then_all,
    made_first_used_later,
    explained,
    cross_join,
    self_join,
    anti_join,
    difference,
    subqueries,
    not_in,
    view,
    cached,
)
