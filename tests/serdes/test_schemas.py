"""Avro and Protobuf with a schema registry, over HTTP."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp

import statestores as ss
from statestores.errors import InvalidArgumentError, SerializationError, StorageError
from statestores.serdes import register_serde, serde_by_name
from statestores.serdes.schemas import SchemaRegistry, avro, protobuf

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
OLDER = {**ORDER, "fields": ORDER["fields"][:1]}
VALUES = [{"id": 1, "tags": ["a", "é"], "note": None}, {"id": -7, "tags": [], "note": "x"}]

# Written by the serializers of confluent-kafka 2.12.2 with fastavro 1.13.1 and protobuf 7.36.2,
# whose registry gave the numbers 1 to 3. `ExtensionRange` is in the third message of its file.
AVRO_BYTES = ["00000000010204026104c3a90000", "00000000010d00020278"]
TIME_BYTES = "00000000020008051007"
RANGE_BYTES = "000000000304040008031009"


class Registry(ThreadingHTTPServer):
    """The part of a schema registry that is asked here."""

    def __init__(self) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), Answers)
        self.schemas: list[dict[str, Any]] = []
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://user:secret@127.0.0.1:{self.server_port}/"


class Answers(BaseHTTPRequestHandler):
    server: Registry

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer ``/schemas/ids/N``."""
        number = int(self.path.rpartition("/")[2])
        known = 0 < number <= len(self.server.schemas)
        self._answer(self.server.schemas[number - 1] if known else None)

    def do_POST(self) -> None:
        """Look a schema up, or register it under ``/versions``."""
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if given not in self.server.schemas and self.path.endswith("/versions"):
            self.server.schemas.append(given)
        known = given in self.server.schemas
        self._answer({"id": self.server.schemas.index(given) + 1} if known else None)

    def _answer(self, document: dict[str, Any] | None) -> None:
        self.server.asked.append(self.path)
        body = json.dumps(document).encode()
        is_allowed = self.headers["Authorization"] == "Basic dXNlcjpzZWNyZXQ="
        self.send_response(401 if not is_allowed else 404 if document is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Registry]:
    """Run a registry."""
    with Registry() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.spec("SRD-1", "SRD-6", "SRD-32", "SRD-33")
def test_avro_is_written_as_confluent_writes_it(server: Registry) -> None:
    """The registry is asked once for a schema, in each direction."""
    serde = avro(SchemaRegistry(server.url), "orders-value", ORDER, register=True)
    encoded = [serde.encode(value) for value in VALUES]
    reader = avro(SchemaRegistry(server.url), "orders-value")
    column = reader.decode_array(pa.array([*encoded, None]))

    assert [each.hex() for each in encoded] == AVRO_BYTES
    assert [reader.decode(each) for each in encoded] == VALUES
    assert column.to_pylist() == [*encoded, None]
    assert serde.encode_array(column).equals(column)
    assert serde.encode_array(pa.array(VALUES)).to_pylist() == encoded
    assert server.asked == ["/subjects/orders-value/versions", "/schemas/ids/1"]


@pytest.mark.spec("SRD-2", "SRD-3", "SRD-33")
def test_what_avro_would_not_give_back_is_refused(server: Registry) -> None:
    """A field that is left out, a value of another type, bytes that are cut or go on."""
    registry = SchemaRegistry(server.url)
    serde = avro(registry, "orders-value", ORDER, register=True)
    encoded = serde.encode(VALUES[0])
    wrong: list[Any] = [{"id": 1, "tags": []}, {"id": "1", "tags": [], "note": None}, 3, None]
    for value in wrong:
        with pytest.raises(SerializationError, match="avro:orders-value"):
            serde.encode(value)
    for data in (encoded[:-1], encoded + b"x", encoded[:4], b"x" + encoded[1:]):
        with pytest.raises(SerializationError, match="avro:orders-value"):
            serde.decode(data)
    with pytest.raises(SerializationError, match="no schema 7"):
        serde.decode(b"\0\0\0\0\x07" + encoded[5:])
    with pytest.raises(SerializationError, match="only reads"):
        avro(registry, "orders-value").encode(VALUES[0])
    with pytest.raises(SerializationError, match="register=True"):
        avro(registry, "orders-value", OLDER).encode({"id": 1})
    with pytest.raises(SerializationError, match="no schema of Avro"):
        avro(registry, "orders-value", {"type": "recor"})


@pytest.mark.spec("SRD-32", "SRD-34")
def test_protobuf_is_written_as_confluent_writes_it(server: Registry) -> None:
    """The place of a message in its file stands before it, short for the first one."""
    registry = SchemaRegistry(server.url)
    avro(registry, "orders-value", ORDER, register=True).encode(VALUES[0])
    times = protobuf(registry, "times-value", Timestamp, register=True)
    ranges = protobuf(registry, "ranges-value", DescriptorProto.ExtensionRange, register=True)
    time, span = Timestamp(seconds=5, nanos=7), DescriptorProto.ExtensionRange(start=3, end=9)

    assert times.encode(time).hex() == TIME_BYTES
    assert ranges.encode(span).hex() == RANGE_BYTES
    assert times.decode(bytes.fromhex(TIME_BYTES)) == time
    assert ranges.decode(bytes.fromhex(RANGE_BYTES)) == span
    assert times.encode_array(pa.array([bytes.fromhex(TIME_BYTES)])).to_pylist() == [
        bytes.fromhex(TIME_BYTES)
    ]
    for serde, data in ((times, RANGE_BYTES), (times, TIME_BYTES[:-2]), (ranges, TIME_BYTES)):
        with pytest.raises(SerializationError, match="-value"):
            serde.decode(bytes.fromhex(data))
    with pytest.raises(SerializationError, match="takes a Timestamp"):
        times.encode(span)
    with pytest.raises(SerializationError, match="class that protoc made"):
        protobuf(registry, "times-value", dict)


@pytest.mark.spec("SRD-22", "SRD-32")
def test_a_store_remembers_the_subject_and_no_registry(
    server: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of an older version are read; without a registry the serde is not found, by name."""
    for schema, value in ((OLDER, {"id": 3}), (ORDER, VALUES[0])):
        serde = avro(SchemaRegistry(server.url), "orders-value", schema, register=True)
        orders = ss.KeyValue("orders", key=ss.utf8, value=serde)
        with ss.open_store(tmp_path / "orders", orders, backend="sqlite") as store:
            store.put(str(value["id"]), value)
            store.commit({})
            read = dict(store.range(None, None))

    assert read == {"3": {"id": 3}, "1": VALUES[0]}
    assert orders.describe()["value"] == "avro:orders-value"
    assert "secret" not in repr(orders)
    with pytest.raises(InvalidArgumentError, match="STATESTORES_SCHEMA_REGISTRY"):
        serde_by_name("avro:orders-value")
    with pytest.raises(InvalidArgumentError, match="register_serde"):
        serde_by_name("protobuf:orders-value")
    monkeypatch.setenv("STATESTORES_SCHEMA_REGISTRY", server.url)
    assert serde_by_name("avro:orders-value").decode(serde.encode(VALUES[0])) == VALUES[0]
    times = protobuf(SchemaRegistry(server.url), "test-times-value", Timestamp)
    register_serde(times)
    assert serde_by_name("protobuf:test-times-value") is times


@pytest.mark.spec("SRD-32")
def test_a_registry_that_does_not_answer_is_no_wrong_value(server: Registry) -> None:
    """Without the right password, or without anybody there. What answered is let go of."""
    for url, said in (
        (server.url.replace("secret", "wrong"), "answers 401"),
        ("http://127.0.0.1:9", "does not answer"),
    ):
        serde = avro(SchemaRegistry(url), "orders-value", ORDER)
        with pytest.raises(StorageError, match=said) as caught:
            serde.encode(VALUES[0])
        assert "wrong" not in str(caught.value)
        cause = caught.value.__cause__
        assert not isinstance(cause, HTTPError) or cause.closed  # it used to keep the socket
    with pytest.raises(InvalidArgumentError, match="https://user:password@host:8081"):
        SchemaRegistry("registry:8081")
