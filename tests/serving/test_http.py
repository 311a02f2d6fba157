"""The HTTP face: every read of every kind, errors, pages of rows, changes, and what it says."""

import socket
from typing import Any

import httpx
import plain_http
import pyarrow as pa
import pytest
from served_shop import COUNTS, MINUTES, RATES, SEEN, VISITS, Shop, home

from statestores.query import QueryableStores
from statestores.serving import HttpServer, Limits
from statestores.serving.http.rendering import ARROW
from statestores.tasks import TaskId
from statestores_conformance.many_cases import for_each

ARROW_PLEASE = {"accept": ARROW}


def told(answer: httpx.Response, status: int = 200) -> Any:
    """Return the document of an answer, whose status is as expected."""
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.spec("SRV-13")
def test_one_key_of_every_kind(web: httpx.Client) -> None:
    """What a local read gives, as JSON has it."""

    def value(store: str, **parameters: Any) -> Any:
        return told(web.get(f"/v1/stores/{store}/value", params=parameters))

    assert value("counts", key="w07") == {
        "rows": [{"key": "w07", "value": 7}],
        "more": False,
        "next": None,
        "found": True,
        "key": "w07",
    }
    assert value("counts", key="hex:773037")["rows"] == [{"key": "w07", "value": 7}]
    assert value("counts", key="nobody")["found"] is False
    assert value("seen", key="w07")["rows"] == [
        {"key": "w07", "value": {"by": [7, None]}, "timestamp_ms": 1007}
    ]
    assert value("rates", key="w07")["rows"] == [
        {"key": "w07", "value": 7.5, "valid_from_ms": 2000, "valid_to_ms": None}
    ]
    assert value("rates", key="w07", as_of="1999")["rows"] == [
        {"key": "w07", "value": 7.25, "valid_from_ms": 1000, "valid_to_ms": 2000}
    ]
    assert value("rates", key="w07", as_of="1970-01-01T00:00:01Z")["rows"][0]["value"] == 7.25
    assert value("minutes", key="w07", start_ms=60_000)["rows"] == [
        {"key": "w07", "value": 7, "start_ms": 60_000, "end_ms": 120_000}
    ]
    assert value("visits", key="w07", start_ms=100, end_ms=207)["rows"][0]["value"] == 7


@pytest.mark.spec("SRV-13")
def test_ranges_and_histories_of_every_kind(web: httpx.Client, shop: Shop) -> None:
    """The same rows, in the same order, as the composite here gives."""

    def rows(store: str, read: str = "rows", **parameters: Any) -> list[Any]:
        answer = told(web.get(f"/v1/stores/{store}/{read}", params=parameters))
        return [tuple(row.values()) for row in answer["rows"]]

    here = QueryableStores(shop.served)
    assert rows("counts") == list(here.store(COUNTS).range())
    assert rows("counts", first="w05", last="w09", reverse="true") == list(
        here.store(COUNTS).range("w05", "w09", reverse=True)
    )
    assert rows("counts", prefix="w1") == list(here.store(COUNTS).prefix_scan(b"w1"))
    assert rows("seen") == [(key, *each) for key, each in here.store(SEEN).range()]
    rates = here.store(RATES)
    assert rows("rates", as_of=500) == [(key, *each) for key, each in rates.scan_as_of(500)]
    assert rows("rates", "history", key="w03") == [("w03", *each) for each in rates.history("w03")]
    assert rows("rates", "history", first="w03", last="w05", first_ms=1500) == [
        (key, *each) for key, each in rates.range_history("w03", "w05", 1500)
    ]
    minutes = here.store(MINUTES)
    assert rows("minutes", first_ms=61_000) == [
        (each.key, each.value, each.start_ms, each.end_ms) for each in minutes.fetch_all(61_000)
    ]
    assert rows("minutes", "history", key="w03", reverse="true") == [
        (each.key, each.value, each.start_ms, each.end_ms)
        for each in minutes.fetch_range("w03", reverse=True)
    ]
    visits = here.store(VISITS)
    assert rows("visits") == [
        (each.key, each.value, each.start_ms, each.end_ms) for each in visits.find_all_sessions()
    ]
    assert rows("visits", by_end="true", first_ms=202, last_ms=205, reverse="true") == [
        (each.key, each.value, each.start_ms, each.end_ms)
        for each in visits.find_sessions_by_end(202, 205, reverse=True)
    ]
    assert rows("visits", by_end="true", last_ms=205) != rows("visits", last_ms=205)
    refused = web.get("/v1/stores/counts/rows", params={"by_end": "true"})
    assert refused.status_code == 400
    assert rows("visits", "history", key="w03", first_ms=150, last_ms=160) == [("w03", 3, 100, 203)]


@pytest.mark.spec("SRV-13")
def test_a_batch_answers_in_the_order_of_its_keys(web: httpx.Client) -> None:
    """What is missed is null, and has its place."""
    answer = web.post("/v1/stores/counts/values", json={"keys": ["w09", "nobody", "w01"]})
    assert [row["value"] for row in told(answer)["rows"]] == [9, None, 1]

    answer = web.post("/v1/stores/rates/values", json={"keys": ["w09"], "as_of": "0"})
    assert told(answer)["rows"][0]["value"] == 9.0


@pytest.mark.spec("SRV-13")
def test_columns_are_those_of_the_serdes(web: httpx.Client) -> None:
    """Arrow for whoever has columns: typed, and with where to go on."""
    answer = web.get("/v1/stores/counts/rows", params={"limit": 3}, headers=ARROW_PLEASE)
    table = pa.ipc.open_stream(answer.content).read_all()

    assert table.to_pydict() == {"key": ["w00", "w01", "w02"], "value": [0, 1, 2]}
    assert table.schema.types == [pa.string(), pa.int64()]
    assert answer.headers["x-more-rows"] == "true"
    assert answer.headers["x-next-first"] == "hex:" + b"w03".hex()
    batch = web.post("/v1/stores/counts/values", json={"keys": ["w9", "w1"]}, headers=ARROW_PLEASE)
    assert pa.ipc.open_stream(batch.content).read_all().column("value").to_pylist() == [None, None]


@pytest.mark.spec("SRV-13")
def test_pages_of_rows_give_every_row_once(web: httpx.Client) -> None:
    """Each answer says where the next one begins."""
    found, first = [], None
    while True:
        asked = {"limit": 7} | ({} if first is None else {"first": first})
        answer = told(web.get("/v1/stores/counts/rows", params=asked))
        found += [row["key"] for row in answer["rows"]]
        first = answer["next"]
        if not answer["more"]:
            break

    assert found == [f"w{number:02d}" for number in range(20)]


@pytest.mark.spec("SRV-12", "SRV-13")
@for_each(
    ("path", "status", "error"),
    [
        ("nothing/value?key=a", 404, "UnknownStateStoreError"),
        ("counts/value", 400, "InvalidArgumentError"),
        ("counts/value?key=a&key=b", 400, "InvalidArgumentError"),
        ("counts/value?key=a&colour=red", 400, "InvalidArgumentError"),
        ("counts/value?key=a&as_of=5", 400, "InvalidArgumentError"),
        ("counts/value?key=a&partition=9", 400, "InvalidArgumentError"),
        ("counts/value?key=a&max_lag=-1", 400, "InvalidArgumentError"),
        ("counts/value?key=a&max_lag=9223372036854775808", 400, "InvalidArgumentError"),
        ("counts/value?key=a&stale=yes", 400, "InvalidArgumentError"),
        ("counts/value?key=hex:zz", 400, "InvalidArgumentError"),
        # It was the key of two U+FFFD that was read, and "not found".
        ("counts/value?key=%ff%fe", 400, "InvalidArgumentError"),
        ("counts/history?key=a", 400, "InvalidArgumentError"),
        ("minutes/value?key=a", 400, "InvalidArgumentError"),
        ("rates/history?first_ms=5&last_ms=1", 400, "InvalidArgumentError"),
        ("rates/value?key=a&as_of=" + "9" * 5000, 400, "InvalidArgumentError"),
        ("counts/rows?limit=0", 400, "InvalidArgumentError"),
        ("counts/rows?limit=10001", 400, "InvalidArgumentError"),
        ('counts/value?key=a&at_least=[["t",0,99]]', 503, "NotUpToBoundError"),
        ('counts/value?key=a&at_least={"a":1}', 400, "InvalidArgumentError"),
        ("counts/changes?partition=5", 400, "InvalidArgumentError"),
        ("counts/changes?from=999", 410, "OffsetOutOfRangeError"),
        ("counts/changes?wait_ms=99999", 400, "InvalidArgumentError"),
    ],
)
def test_what_cannot_be_answered_says_why(
    web: httpx.Client, path: str, status: int, error: str
) -> None:
    """An error is a document with the class of a local read, and a status that fits."""
    document = told(web.get(f"/v1/stores/{path}"), status)

    assert document["error"] == error
    assert document["retryable"] is (status == 503)


@pytest.mark.spec("SRV-13")
def test_a_partition_that_is_not_here_is_not_a_miss(own_web: httpx.Client, own_shop: Shop) -> None:
    """It can be asked again, and elsewhere."""
    own_shop.manager.assign([TaskId(0, 0)], [TaskId(0, 1)])

    answers = {
        own_web.get("/v1/stores/counts/value", params={"key": f"w{number:02d}"}).status_code
        for number in range(20)
    }
    assert answers == {200, 503}


@pytest.mark.spec("SRV-14")
def test_changes_are_given_from_an_offset_on(own_web: httpx.Client, own_shop: Shop) -> None:
    """A reader goes on where it ended, and misses nothing."""
    first = told(own_web.get("/v1/stores/counts/changes", params={"partition": 0, "limit": 4}))
    rest = told(
        own_web.get("/v1/stores/counts/changes", params={"partition": 0, "from": first["next"]})
    )
    changes = [*first["changes"], *rest["changes"]]

    assert len(first["changes"]) == 4
    assert [each["offset"] for each in changes] == list(range(len(changes)))
    assert rest["next"] == rest["end"] == len(changes)
    assert {each["operation"] for each in changes} == {"put"}
    last = told(own_web.get("/v1/stores/counts/changes", params={"last_changes": 2}))
    assert last["changes"] == changes[-2:]
    word = changes[0]["key"]
    own_shop.put(word, 500, 21)
    later = told(
        own_web.get("/v1/stores/counts/changes", params={"from": rest["end"], "wait_ms": 20_000})
    )
    assert [(each["key"], each["value"]) for each in later["changes"]] == [(word, 500)]


@pytest.mark.spec("SRV-14", "SRV-16")
def test_changes_of_many_bytes_are_given_in_parts(shop: Shop) -> None:
    """Ten thousand changes of a megabyte each were one answer, and all of the memory.

    Rows had a limit of bytes, and changes only one of rows. An answer ends where it has enough, and
    says where to go on; a change that is larger than the limit is one answer.
    """
    with HttpServer(shop.served, limits=Limits(max_bytes=9)) as server:

        def changes(start: int) -> Any:
            address = f"{server.url}/v1/stores/seen/changes"
            return told(plain_http.get(address, params={"from": start}))

        with HttpServer(shop.served) as other:
            address = f"{other.url}/v1/stores/seen/changes"
            everything = told(plain_http.get(address))["changes"]
        found: list[Any] = []
        for _ in everything:
            part = changes(len(found))
            assert len(part["changes"]) == 1
            found += part["changes"]

    assert found == everything


@pytest.mark.spec("SRV-15")
def test_ready_is_when_everything_can_be_read(
    own_web: httpx.Client, own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Health is of the process, readiness of what it serves."""
    assert told(own_web.get("/health")) == {"status": "up"}
    assert told(own_web.get("/ready")) == {"ready": True}
    monkeypatch.setattr(own_shop.served, "waiting", lambda: ("task 0_0 is restoring",))

    assert told(own_web.get("/ready"), 503) == {"ready": False}
    assert told(own_web.get("/v1/stores"))["waiting"] == ["task 0_0 is restoring"]


@pytest.mark.spec("SRV-15")
def test_metrics_are_in_prometheus_format(web: httpx.Client) -> None:
    """Each name once with its help and type, each series once."""
    answer = web.get("/metrics")
    lines = answer.text.splitlines()
    series = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")]

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert any(each.startswith("statestores_put_total{") for each in series)
    assert len(series) == len(set(series))
    assert not any("_rate{" in each for each in series)
    types = [line for line in lines if line.startswith("# TYPE")]
    assert len(types) == len({line.split()[2] for line in types})


@pytest.mark.spec("SRV-1", "SRV-13")
def test_it_says_what_is_here(web: httpx.Client, server: HttpServer) -> None:
    """Stores with their partitions, this instance's record, and a description of the face."""
    stores = told(web.get("/v1/stores"))["stores"]
    assert [each["name"] for each in stores] == ["counts", "minutes", "rates", "seen", "visits"]
    assert [each["role"] for each in stores[0]["here"]] == ["active", "active"]
    assert told(web.get("/v1/stores/rates"))["kind"] == "versioned"
    record = told(web.get("/v1/instance"))
    assert record["http"] == str(server.host)
    assert told(web.get("/v1/metadata")) == {"instances": [record]}
    assert told(web.get("/v1/topology"))["mermaid"].startswith("flowchart")
    about = told(web.get("/v1/stores/rates/about"))
    assert about["stream_time_ms"] == 2000
    assert about["position"] == [["words", 0, 20]]
    described = told(web.get("/openapi.json"))
    assert described["openapi"].startswith("3.1")
    reads = [path for path in described["paths"] if path.startswith("/v1/stores/{store}/")]
    assert sorted(path.rsplit("/", 1)[1] for path in reads) == [
        *("about", "changes", "history", "rows", "value", "values", "where")
    ]
    schemas = described["components"]["schemas"]
    for path in ("/health", "/ready", "/v1/instance", "/v1/metadata", "/v1/topology", "/v1/stores"):
        answer = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
        schema = schemas[answer["schema"]["$ref"].rpartition("/")[2]]
        document = told(web.get(path))
        assert set(schema["required"]) <= set(document)
        assert schema.get("additionalProperties", True) or set(document) <= set(
            schema["properties"]
        )


@pytest.mark.spec("SRV-2", "SRV-12")
def test_it_says_where_a_key_is(web: httpx.Client, server: HttpServer) -> None:
    """Of a key or a partition: who has it, in which role, and how far behind (KIP-535)."""
    where = told(web.get("/v1/stores/counts/where", params={"key": "w07"}))
    assert where == told(web.get(f"/v1/stores/counts/where?partition={home('w07')}"))
    assert where["partition"] == home("w07")
    assert (where["active"], where["standbys"]) == (None, [])  # nothing is served over Flight
    assert where["instances"] == [
        {
            "instance": str(server.host),
            "role": "active",
            "host": None,
            "http": str(server.host),
            "offset_lag": 0,
        }
    ]
    for wrong in ("", "?key=a&partition=0", "?partition=9"):
        assert told(web.get(f"/v1/stores/counts/where{wrong}"), 400)["retryable"] is False


@pytest.mark.spec("SRV-12", "SRV-18")
def test_every_refusal_is_a_document(
    own_web: httpx.Client, own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown addresses, wrong methods and our own failures were plain text, or said too much."""
    assert told(own_web.get("/v2/stores"), 404)["error"] == "StoreNotFoundError"
    wrong = own_web.post("/v1/stores/counts/rows")
    assert told(wrong, 405)["error"] == "InvalidArgumentError"
    for method, path, allowed in (
        ("PUT", "/v1/stores", "GET, HEAD"),
        ("DELETE", "/v1/stores/counts/values", "POST"),
    ):
        refused = own_web.request(method, path)
        assert told(refused, 405)["retryable"] is False
        assert refused.headers["allow"] == allowed

    def fail() -> tuple[str, ...]:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(own_shop.served, "waiting", fail)
    failed = own_web.get("/ready")
    assert told(failed, 500)["error"] == "StateStoreError"
    assert "secret" not in failed.text


@pytest.mark.spec("SRV-16")
def test_an_answer_has_limits(shop: Shop) -> None:
    """Rows, bytes, keys, the size of a question, and how many run at once."""
    limits = Limits(max_rows=5, max_bytes=70, max_request_bytes=200)
    with (
        HttpServer(shop.served, limits=limits) as server,
        plain_http.client(base_url=server.url) as web,
    ):
        assert len(told(web.get("/v1/stores/counts/rows"))["rows"]) < 5 + 1
        assert told(web.get("/v1/stores/counts/rows?limit=6"), 400)
        assert told(web.get("/v1/stores/seen/rows"), 413)["error"] == "LimitExceededError"
        big = web.post("/v1/stores/counts/values", content=b"x" * 201)
        assert told(big, 413)["error"] == "LimitExceededError"
        many = web.post("/v1/stores/counts/values", json={"keys": ["a"] * 6})
        assert told(many, 400)["error"] == "InvalidArgumentError"


def test_a_small_answer_is_sent_at_once(server: HttpServer) -> None:
    """Each answer over HTTP took 40 ms, and nobody knew why.

    The server listened at a socket that did not say its protocol. Its connections did not either,
    so asyncio did not ask for small packets to be sent at once, and the second one of each answer
    waited until the other side had acknowledged the first.
    """
    with socket.create_connection((server.host.name, server.host.port)):
        assert server._socket.proto == socket.IPPROTO_TCP
