"""The web application: which address is answered by what, and what becomes of errors."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from time import monotonic
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from statestores.errors import InvalidArgumentError, LimitExceededError, StateStoreError
from statestores.partitioning import partitioner_by_name
from statestores.query.metadata.application import ApplicationMetadata
from statestores.query.metadata.instance import InstanceMetadata
from statestores.serving.access import Access
from statestores.serving.answers import Answers
from statestores.serving.errors_on_wire import TRY_AGAIN, as_document, status_of
from statestores.serving.http import prometheus
from statestores.serving.http.guard import HEALTH, Guard
from statestores.serving.http.openapi import MAX_WAIT_MS, description
from statestores.serving.http.parameters import Parameters, check_encoding
from statestores.serving.http.rendering import json_response
from statestores.serving.http.store_reads import StoreReads

T = TypeVar("T")

_BODY_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_WRONG_METHOD = 405
_OTHER_THREADS = 16
"""Threads for what is no read of a store, such as `/ready`, beside those that reads may have."""

_PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/topology.js": ("topology.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


class Face:
    """The requests of one server, answered."""

    def __init__(
        self,
        answers: Answers,
        instance: Callable[[], InstanceMetadata],
        others: Callable[[], Mapping[str, InstanceMetadata]] | None,
    ) -> None:
        """Answer by *answers*; *instance* says what is here, *others* who else there is."""
        self._answers = answers
        self._instance = instance
        self._others = others
        self._reads = StoreReads(answers)
        # By default there are 40 threads: reads that wait would hold them all, before they are
        # too many (SRV-16), and nothing else would be answered.
        self._threads = CapacityLimiter(answers.most_running + _OTHER_THREADS)

    def routes(self) -> list[Route]:
        """Return which address is answered by what."""
        reads = self._reads
        simple: dict[str, Callable[[Request], Response]] = {
            "/ready": self._ready,
            "/metrics": self._metrics,
            "/openapi.json": lambda _: json_response(
                description(self._answers.served, self._answers.limits)
            ),
            "/v1/instance": lambda _: json_response(self._instance().as_json()),
            "/v1/metadata": self._all_metadata,
            "/v1/topology": lambda _: json_response({"mermaid": self._answers.served.topology()}),
            "/v1/stores": self._stores,
            "/v1/stores/{store}": self._store,
            "/v1/stores/{store}/about": reads.about,
            "/v1/stores/{store}/value": reads.value,
            "/v1/stores/{store}/rows": reads.rows,
            "/v1/stores/{store}/history": reads.history,
            "/v1/stores/{store}/where": self._where,
        }
        return [
            Route(HEALTH, _health, methods=["GET"]),
            *(
                Route(path, _guarded(partial(self._on_a_thread, answer)), methods=["GET"])
                for path, answer in simple.items()
            ),
            Route("/v1/stores/{store}/values", _guarded(self._values), methods=["POST"]),
            Route("/v1/stores/{store}/changes", _guarded(self._changes), methods=["GET"]),
            *(Route(path, partial(_static, *of), methods=["GET"]) for path, of in _PAGE.items()),
        ]

    async def _on_a_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Return what *call* gives on a thread, since stores wait for disks."""
        return await to_thread.run_sync(call, *arguments, limiter=self._threads)

    def _ready(self, request: Request) -> Response:
        """Answer whether everything here can be read: what waits is said to whoever may ask."""
        waiting = self._answers.served.waiting()
        return json_response({"ready": not waiting}, TRY_AGAIN if waiting else 200)

    def _metrics(self, request: Request) -> Response:
        text = prometheus.exposition(self._answers.served.metrics())
        return Response(text, media_type=prometheus.CONTENT_TYPE)

    def _known(self) -> ApplicationMetadata:
        own = self._instance()
        others = {} if self._others is None else self._others()
        return ApplicationMetadata({**others, own.instance: own})

    def _all_metadata(self, request: Request) -> Response:
        known = self._known().all_metadata()
        return json_response({"instances": [each.as_json() for each in known]})

    def _where(self, request: Request) -> Response:
        """Answer with the instances that have a key, or a partition (KIP-535)."""
        specification = self._answers.served.specification(request.path_params["store"])
        asked = Parameters(request.query_params.multi_items(), "key", "partition")
        key, number = asked.key("key", specification), asked.integer("partition")
        if (key is None) == (number is None):
            raise InvalidArgumentError("say where what is: give a key, or a partition")
        known, name = self._known(), specification.name
        if key is not None:
            count = self._answers.served.partition_count(name)
            number = partitioner_by_name(specification.partitioner).partition(key, count)
        found = known.query_metadata_for_partition(name, number or 0)
        there = [(each, each.of(name).get(found.partition)) for each in known.all_metadata()]
        return json_response(
            {
                "partition": found.partition,
                "active": None if found.active is None else str(found.active),
                "standbys": [str(each) for each in found.standbys],
                "instances": [
                    {
                        "instance": each.instance,
                        "role": part.role.value,
                        "host": None if each.host is None else str(each.host),
                        "http": None if each.http is None else str(each.http),
                        "offset_lag": part.offset_lag,
                    }
                    for each, part in there
                    if part is not None
                ],
            }
        )

    def _stores(self, request: Request) -> Response:
        served = self._answers.served
        return json_response(
            {
                "stores": [self._described(name) for name in served.store_names()],
                "waiting": served.waiting(),
                "answers_from_copies": served.answers_from_copies,
            }
        )

    def _store(self, request: Request) -> Response:
        return json_response(self._described(request.path_params["store"]))

    def _described(self, name: str) -> dict[str, Any]:
        served = self._answers.served
        specification = served.specification(name)
        here = served.partitions(name)
        return {
            **specification.describe(),
            "partitions": served.partition_count(name),
            "here": [
                {
                    "partition": number,
                    "role": each.role.value,
                    "current_offset": each.current_offset,
                    "end_offset": each.end_offset,
                    "offset_lag": each.offset_lag,
                }
                for number, each in sorted(here.items())
            ],
        }

    async def _values(self, request: Request) -> Response:
        """Answer a batch: its body is read up to the limit, and in time."""
        most = self._answers.limits.max_request_bytes
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise LimitExceededError(f"a question has up to {most} bytes")
        except TimeoutError as error:
            raise LimitExceededError(
                f"the question did not come within {_BODY_SECONDS:.0f} s"
            ) from error
        return await self._on_a_thread(self._reads.values, request, bytes(body))

    async def _changes(self, request: Request) -> Response:
        """Answer with changes; wait for the first one if that is asked for. No thread waits."""
        asked = request.query_params
        wait_ms = Parameters(
            [(name, value) for name, value in asked.multi_items() if name == "wait_ms"], "wait_ms"
        ).integer("wait_ms")
        if wait_ms is not None and wait_ms > MAX_WAIT_MS:
            raise InvalidArgumentError(f"'wait_ms' is up to {MAX_WAIT_MS}, got {wait_ms}")
        until = monotonic() + (wait_ms or 0) / 1000
        while True:
            found = await self._on_a_thread(self._reads.changes, request)
            if found["changes"] or monotonic() >= until or await request.is_disconnected():
                return json_response(found)
            await asyncio.sleep(_LOOK_SECONDS)


def application(
    answers: Answers,
    access: Access,
    address: str,
    *,
    instance: Callable[[], InstanceMetadata],
    others: Callable[[], Mapping[str, InstanceMetadata]] | None = None,
) -> Guard:
    """Return the web application of a server that listens at *address*."""
    face = Face(answers, instance, others)
    handlers: dict[Any, Any] = {HTTPException: _no_such_address, Exception: _failed}
    app = Starlette(routes=face.routes(), exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, access, address)


def _no_such_address(request: Request, error: HTTPException) -> Response:
    """Answer what Starlette finds no route for, as everything else is answered."""
    words = "there is no such address here; /openapi.json describes those that there are"
    if error.status_code == _WRONG_METHOD:
        words = f"{request.url.path:.200} is not asked by {request.method}"
    kind = "InvalidArgumentError" if error.status_code == _WRONG_METHOD else "StoreNotFoundError"
    document = {"error": kind, "message": words, "retryable": False}
    return json_response(document, error.status_code, **dict(error.headers or {}))


def _failed(request: Request, error: Exception) -> Response:
    """Answer that we have failed, and with nothing of how; Starlette logs it."""
    words = "the question could not be answered"
    document = {"error": "StateStoreError", "message": words, "retryable": False}
    return json_response(document, 500)


async def _health(request: Request) -> Response:
    """Answer that the process lives: without a thread, which reads may have."""
    return json_response({"status": "up"})


def _guarded(
    answer: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return *answer*, with its errors as documents."""

    async def respond(request: Request) -> Response:
        try:
            check_encoding(request.scope["query_string"])
            return await answer(request)
        except StateStoreError as error:
            headers = {"retry-after": "1"} if error.retryable else {}
            return json_response(as_document(error), status_of(error), **headers)
        except ClientDisconnect:
            return json_response({}, TRY_AGAIN)

    return respond


async def _static(name: str, media_type: str, request: Request) -> Response:
    data = files("statestores.serving.http").joinpath("page", name).read_bytes()
    return Response(data, media_type=media_type)
