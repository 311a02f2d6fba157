"""The reads of one store over HTTP. Each function answers one request, on a thread of its own."""

from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError
from statestores.serving.answers import Answers
from statestores.serving.http.parameters import SHARED, Parameters, keys_of_body
from statestores.serving.http.rendering import (
    ARROW,
    Decoder,
    change_documents,
    json_response,
    rows_response,
)
from statestores.serving.query import Query
from statestores.spi import kinds
from statestores.spi.specification import StoreSpecification
from statestores.text.times import parse_time

DEFAULT_LIMIT = 100
"""Rows of an answer, unless another number is asked for."""

_ONE_ROW_A_KEY = (kinds.KEY_VALUE, kinds.TIMESTAMPED_KEY_VALUE, kinds.VERSIONED)


class StoreReads:
    """Answers requests for the content of stores."""

    def __init__(self, answers: Answers) -> None:
        """Ask *answers*."""
        self._answers = answers

    def value(self, request: Request) -> Response:
        """Answer with the value of one key, now or as of a time; of a window or session."""
        specification = self._specification(request)
        asked = Parameters(
            request.query_params.multi_items(), "key", "as_of", "start_ms", "end_ms", *SHARED
        )
        key = asked.key("key", specification)
        if key is None:
            raise InvalidArgumentError("the parameter 'key' is missing")
        query = Query(
            store=specification.name,
            read="get",
            key=key,
            as_of_ms=asked.time("as_of"),
            start_ms=asked.time("start_ms"),
            end_ms=asked.time("end_ms"),
            **asked.shared(),
        )
        with self._answers.turn() as deadline:
            found = list(self._answers.rows(query, deadline)[1])
        if _wants_arrow(request):
            return rows_response(
                specification, found, wants_arrow=True, has_more=False, next_first=None
            )
        return rows_response(
            specification,
            found,
            wants_arrow=False,
            has_more=False,
            next_first=None,
            also={"found": bool(found), "key": Decoder(specification).key(key)},
        )

    def values(self, request: Request, body: bytes) -> Response:
        """Answer with the value of each key of a batch, in their order; null for what is missed."""
        specification = self._specification(request)
        asked = Parameters(request.query_params.multi_items(), *SHARED)
        keys, document = keys_of_body(body, specification, self._answers.limits.max_rows)
        as_of: Any = document.get("as_of")
        query = Query(
            store=specification.name,
            read="get_many",
            keys=keys,
            as_of_ms=None if as_of is None else parse_time(f"{as_of}"[:64]),
            **asked.shared(),
        )
        with self._answers.turn() as deadline:
            found = list(self._answers.rows(query, deadline)[1])
        return rows_response(
            specification,
            found,
            wants_arrow=_wants_arrow(request),
            has_more=False,
            next_first=None,
        )

    def rows(self, request: Request) -> Response:
        """Answer with a range of keys: values, versions as of a time, windows, or sessions."""
        specification = self._specification(request)
        asked = Parameters(
            request.query_params.multi_items(),
            *("first", "last", "prefix", "as_of", "first_ms", "last_ms", "reverse", "limit"),
            "by_end",
            *SHARED,
        )
        query = Query(
            store=specification.name,
            read="by_end" if asked.flag("by_end") else "range",
            first=asked.key("first", specification),
            last=asked.key("last", specification),
            prefix=asked.prefix("prefix"),
            as_of_ms=asked.time("as_of"),
            first_ms=asked.time("first_ms"),
            last_ms=asked.time("last_ms"),
            reverse=asked.flag("reverse"),
            **asked.shared(),
        )
        return self._page(request, specification, query, asked.integer("limit"))

    def history(self, request: Request) -> Response:
        """Answer with the versions, windows or sessions of a key, or versions of many (KIP-969)."""
        specification = self._specification(request)
        asked = Parameters(
            request.query_params.multi_items(),
            *("key", "first", "last", "first_ms", "last_ms", "reverse", "limit"),
            *SHARED,
        )
        query = Query(
            store=specification.name,
            read="history",
            key=asked.key("key", specification),
            first=asked.key("first", specification),
            last=asked.key("last", specification),
            first_ms=asked.time("first_ms"),
            last_ms=asked.time("last_ms"),
            reverse=asked.flag("reverse"),
            **asked.shared(),
        )
        return self._page(request, specification, query, asked.integer("limit"))

    def changes(self, request: Request) -> dict[str, Any]:
        """Return what happened in one partition, from an offset on, with where to go on."""
        specification = self._specification(request)
        asked = Parameters(
            request.query_params.multi_items(),
            "partition",
            "from",
            "last_changes",
            "limit",
            "wait_ms",
        )
        partition = asked.integer("partition") or 0
        count = self._answers.served.partition_count(specification.name)
        if partition >= count:
            raise InvalidArgumentError(
                f"{specification.name!r} has the partitions 0 to {count - 1}, got {partition}"
            )
        limit = self._limit(asked.integer("limit"))
        start, last = asked.integer("from"), asked.integer("last_changes")
        if start is not None and last is not None:
            raise InvalidArgumentError("give from or last_changes, not both")
        with self._answers.turn() as deadline:
            end, batches = self._changes(specification.name, partition, start, last)
            with closing(batches) if isinstance(batches, Generator) else nullcontext():
                found, is_all = change_documents(
                    specification,
                    batches,
                    limit=limit,
                    max_bytes=self._answers.limits.max_bytes,
                    deadline=deadline,
                )
        following = end if is_all else found[-1]["offset"] + 1
        return {"changes": found, "next": following, "end": end, "partition": partition}

    def _changes(
        self, name: str, partition: int, start: int | None, last: int | None
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        if last is None:
            return self._answers.served.changes(name, partition, start)
        end, everything = self._answers.served.changes(name, partition, None)
        try:
            return self._answers.served.changes(name, partition, max(0, end - last))
        except OffsetOutOfRangeError:
            return end, everything

    def about(self, request: Request) -> Response:
        """Answer with what is known of a whole store: positions, stream time, entries."""
        specification = self._specification(request)
        asked = Parameters(request.query_params.multi_items(), *SHARED)
        query = Query(store=specification.name, read="about", **asked.shared())
        with self._answers.turn():
            return json_response(self._answers.about(query))

    def _page(
        self,
        request: Request,
        specification: StoreSpecification[Any, Any],
        query: Query,
        limit: int | None,
    ) -> Response:
        """Answer with up to *limit* rows, and with whether and where there are more."""
        most = self._limit(limit)
        with self._answers.turn() as deadline:
            found = list(self._answers.rows(replace(query, limit=most + 1), deadline)[1])
        has_more = len(found) > most
        goes_on = (
            has_more
            and query.read == "range"
            and not query.reverse
            and query.prefix is None
            and specification.kind in _ONE_ROW_A_KEY
        )
        return rows_response(
            specification,
            found[:most],
            wants_arrow=_wants_arrow(request),
            has_more=has_more,
            next_first=found[most][0] if goes_on else None,
        )

    def _limit(self, limit: int | None) -> int:
        most = self._answers.limits.max_rows
        if limit is not None and not 1 <= limit <= most:
            raise InvalidArgumentError(f"'limit' is from 1 to {most}, got {limit}")
        return min(DEFAULT_LIMIT, most) if limit is None else limit

    def _specification(self, request: Request) -> StoreSpecification[Any, Any]:
        return self._answers.served.specification(request.path_params["store"])


def _wants_arrow(request: Request) -> bool:
    return ARROW in request.headers.get("accept", "")
