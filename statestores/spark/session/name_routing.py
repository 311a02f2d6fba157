"""``format("statestore")`` for our stores as well, decided by what lies at the path.

Spark keeps that short name for its own checkpoints, and no Python source can take it. So the
methods in which a user gives the name are wrapped: where the path has a ``statestores.json``, the
call continues as ``format("statestores")``, and everywhere else exactly as it was.

Invariant: a class is wrapped while a session that it belongs to is registered, and each wrapped
method passes calls of other sessions and of other formats on unchanged. The clone in which Spark
runs a query of a registered session counts as that session. No setting of a session is touched: its
user has other sources too.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Final

from statestores.errors import StateStoreError, StoreNotFoundError
from statestores.files.durable_json import ROOT_FILE
from statestores.spark.session.query_session import active_session, is_clone_for_query
from statestores.spark.session.told_builders import (
    Method,
    names_storage,
    path_of,
    remembering_format,
    remembering_mode,
    remembering_option,
    remembering_options,
    what_was_told,
)
from statestores.spark.source_name import SOURCE_NAME
from statestores.spark.state_path import is_kafka_state, local_path, staged_store
from statestores.state_root import StateRoot, is_state_root
from statestores.storage import is_storage_url

_log = logging.getLogger(__name__)

ROUTED_NAME: Final = "statestore"
"""The name that Spark keeps for itself."""

_OURS: Final = frozenset({ROUTED_NAME, SOURCE_NAME})
_NEW_ONLY: Final = frozenset({"error", "errorifexists", "default"})

# CREATE ... USING statestore, where the words before USING may be quoted or commented.
_USING = re.compile(
    r"""
    ^((?:\s|/\*.*?\*/|--[^\n]*\n)*
      (?:CREATE|REPLACE)\b
      (?:'(?:\\.|[^'])*'|"(?:\\.|[^"])*"|`[^`]*`|[^'"`])*?
      \bUSING\s+)
    (`?)statestore\2(?=\s|\(|;|$)
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_SQL_PATH = re.compile(
    r"(?:\bpath\b|'path'|\"path\"|`path`|\bLOCATION\b)\s*=?\s*"
    r"('(?:\\.|[^'])*'|\"(?:\\.|[^\"])*\")",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkClasses:
    """The classes of one flavour of Spark, classic or Connect, in which a user gives a name."""

    session: type
    """Of ``sql``."""

    reader: type
    """Of ``read``."""

    writer: type
    """Of ``write``."""

    stream_reader: type
    """Of ``readStream``."""

    stream_writer: type
    """Of ``writeStream``."""


class NameRouting:
    """The wrapped methods of one flavour of Spark's classes."""

    def __init__(self, classes: SparkClasses) -> None:
        """Wrap nothing yet."""
        self._classes = classes
        self._owners: dict[str, Any] = {}  # the sessions, by their keys
        self._originals: dict[tuple[type, str], Method] = {}

    def add(self, spark: Any) -> None:
        """Route the calls of *spark* from now on; repeating it is no error."""
        if not self._originals:
            self._wrap()
        self._owners[session_key(spark)] = spark

    def remove(self, spark: Any) -> None:
        """Leave the calls of *spark* alone again; also if it was never added."""
        self._owners.pop(session_key(spark), None)
        if not self._owners:
            for (owner, name), original in self._originals.items():
                setattr(owner, name, original)
            self._originals.clear()

    def _wrap(self) -> None:
        """Wrap the methods in which a name, a path or a mode can be given."""
        classes = self._classes
        for name in (each.name for each in fields(classes) if each.name != "session"):
            builder = getattr(classes, name)
            self._replace(builder, "format", remembering_format)
            self._replace(builder, "option", remembering_option)
            self._replace(builder, "options", remembering_options)
        self._replace(classes.writer, "mode", remembering_mode)
        self._replace(classes.reader, "load", self._routed_load)
        self._replace(classes.stream_reader, "load", self._routed_stream)
        self._replace(classes.writer, "save", self._routed_save)
        self._replace(classes.stream_writer, "start", self._routed_start)
        self._replace(classes.session, "sql", self._routed_sql)

    def _replace(self, owner: type, name: str, wrapper: Callable[[Method], Method]) -> None:
        original = getattr(owner, name)
        self._originals[owner, name] = original
        setattr(owner, name, wraps(original)(wrapper(original)))

    def _is_routed(self, spark: Any) -> bool:
        if session_key(spark) in self._owners:
            return True
        return not is_connect(spark) and is_clone_for_query(spark, self._owners.values())

    def _routed_load(self, original: Method) -> Method:
        def load(
            builder: Any,
            path: Any = None,
            format: str | None = None,  # noqa: A002  # Spark's name
            *arguments: Any,
            **options: Any,
        ) -> Any:
            if format is not None:
                builder.format(format)
            told = what_was_told(builder)
            spark = _session_of(builder)
            if told.get("format") not in _OURS:
                return original(builder, path, None, *arguments, **options)
            if not self._is_routed(spark):
                with _explaining(builder, told, path, options):
                    return original(builder, path, None, *arguments, **options)
            if told["format"] == SOURCE_NAME or not (
                names_storage(told, options) or _is_ours(spark, path_of(told, path, options))
            ):
                return original(builder, path, None, *arguments, **options)
            builder.format(SOURCE_NAME)
            try:
                return original(builder, path, None, *arguments, **options)
            finally:
                builder.format(ROUTED_NAME)

        return load

    def _routed_stream(self, original: Method) -> Method:
        routed = self._routed_load(original)

        def load(
            builder: Any,
            path: Any = None,
            format: str | None = None,  # noqa: A002  # Spark's name
            *arguments: Any,
            **options: Any,
        ) -> Any:
            if format is not None:
                builder.format(format)
            builder.options(**options)
            told = what_was_told(builder)
            if told.get("format") in _OURS and self._is_routed(_session_of(builder)):
                # A stream can only be one of changes. The source itself could not know.
                builder.option("readChangeFeed", told.get("readchangefeed", "true"))
            return routed(builder, path, None, *arguments)

        return load

    def _routed_start(self, original: Method) -> Method:
        def start(
            builder: Any,
            path: str | None = None,
            format: str | None = None,  # noqa: A002  # Spark's name
            *arguments: Any,
            **options: Any,
        ) -> Any:
            if format is not None:
                builder.format(format)
            named = what_was_told(builder).get("format")
            spark = _session_of(builder)
            if named not in _OURS or not self._is_routed(spark):
                return original(builder, path, None, *arguments, **options)
            # Spark's own source does not write.
            builder.format(SOURCE_NAME)
            try:
                with _findable(spark):
                    return original(builder, path, None, *arguments, **options)
            finally:
                builder.format(named)

        return start

    def _routed_save(self, original: Method) -> Method:
        def save(
            builder: Any,
            path: str | None = None,
            format: str | None = None,  # noqa: A002  # Spark's name
            mode: str | None = None,
            *arguments: Any,
            **options: Any,
        ) -> Any:
            if format is not None:
                builder.format(format)
            if mode is not None:
                builder.mode(mode)
            told = dict(what_was_told(builder))
            named = told.get("format")
            spark = _session_of(builder)
            if named not in _OURS:
                return original(builder, path, None, None, *arguments, **options)
            if not self._is_routed(spark):
                with _explaining(builder, told, path, options):
                    return original(builder, path, None, None, *arguments, **options)
            # Spark's own source does not write, so a save under its name can only be ours. Python
            # sources know two modes; the source itself sees to the others.
            asked = told.get("mode", "errorifexists")
            builder.format(SOURCE_NAME)
            if asked in _NEW_ONLY or asked == "ignore":
                builder.mode("append").option("ifExists", "ignore" if asked == "ignore" else "fail")
            try:
                with _findable(spark):
                    return original(builder, path, None, None, *arguments, **options)
            finally:
                builder.option("ifExists", "write")
                builder.mode(asked)
                builder.format(named)

        return save

    def _routed_sql(self, original: Method) -> Method:
        def sql(spark: Any, query: Any, *arguments: Any, **named: Any) -> Any:
            # A cheap check first: most statements are not about us.
            if isinstance(query, str) and ROUTED_NAME in query.lower() and self._is_routed(spark):
                query = route_statement(query, lambda path: _is_ours(spark, path))
            return original(spark, query, *arguments, **named)

        return sql


def route_statement(query: str, is_ours: Callable[[str], bool]) -> str:
    """Return the statement *query*, with the name changed if it creates a view of our store."""
    using = _USING.match(query)
    if using is None:
        return query
    path = _SQL_PATH.search(query, using.end())
    if path is None or not is_ours(path[1][1:-1]):
        return query
    return query[: using.end(1)] + SOURCE_NAME + query[using.end() :]


def is_connect(spark: Any) -> bool:
    """Return whether *spark* is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def session_key(spark: Any) -> str:
    """Return what tells sessions apart; one session may have several objects in Python."""
    key = spark.session_id if is_connect(spark) else spark._jsparkSession.sessionUUID()  # noqa: SLF001  # no other way
    return str(key)


def _session_of(builder: Any) -> Any:
    """Return the session of a reader or writer, of a batch or a stream."""
    # Only the readers of Connect have the second name, and its streaming writer the third.
    names = builder.__dict__
    return names.get("_spark") or names.get("_client") or names["_session"]


def _findable(spark: Any) -> AbstractContextManager[None]:
    """Let Spark find Python sources in this thread; Connect's server has its own."""
    return nullcontext() if is_connect(spark) else active_session(spark)


@contextmanager
def _explaining(
    builder: Any, told: dict[str, Any], path: Any, options: dict[str, Any]
) -> Iterator[None]:
    """Add to what Spark's own source raises in a session that is not registered.

    It says that it finds no batch of a query, where the path is one of ours.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415  # only where Spark is

    try:
        yield
    except PySparkException as error:
        place = path_of(told, path, options)
        if told.get("format") == ROUTED_NAME and _is_ours(_session_of(builder), place):
            error.add_note(
                f"{place!r} is one of statestores, and {ROUTED_NAME!r} is Spark's own source in "
                "this session, which is not registered: call statestores.spark.register() with "
                f"it, or use format({SOURCE_NAME!r})"
            )
        raise


def _is_ours(spark: Any, path: Any) -> bool:
    """Return whether there is a state root at *path*, as seen by the machine that will read it.

    Or the first write to one, or a state directory of Kafka Streams; not with Connect, which
    cannot look into directories.
    """
    if not isinstance(path, str) or not path:
        return False
    if not is_connect(spark):
        if is_storage_url(path):
            return _is_ours_in_objects(path)
        local = local_path(path)
        return local is not None and (
            is_state_root(local) or staged_store(local) is not None or is_kafka_state(local)
        )
    from pyspark.errors import AnalysisException  # noqa: PLC0415  # only where Spark is

    try:
        # Only analysed, no job: the server says whether the file is there.
        _ = spark.read.text(f"{path.rstrip('/')}/{ROOT_FILE}").schema
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    return True


def _is_ours_in_objects(url: str) -> bool:
    """Return whether there is a state root at *url*, as the environment says how to look.

    Where that cannot be found out the name stays Spark's, as it would be without this module.
    """
    try:
        StateRoot.open(url)
    except StoreNotFoundError:
        return False
    except StateStoreError as error:
        _log.warning(
            "whether that is a state root cannot be found out (%s); format(%r) is Spark's own "
            "there, and format(%r) is ours",
            error,
            ROUTED_NAME,
            SOURCE_NAME,
        )
        return False
    return True
