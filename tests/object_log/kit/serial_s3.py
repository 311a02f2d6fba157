"""moto's S3 in one thread: one request at a time, so that its check before a put is atomic.

    python serial_s3.py         prints its port

Other servers for tests, and moto with threads, have several winners on one name. It serves S3 and
nothing else: to find out for each request which of two hundred services is meant, and to read the
text of each time of a list again, took half of the processor.
"""

from functools import lru_cache

from moto.core import serialize

# moto does not say what it exports.
from moto.server import create_backend_app  # type: ignore[attr-defined]
from werkzeug.serving import WSGIRequestHandler, make_server

_TIMES = 4_096


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.0"  # a connection that is kept would hold the one thread

    def log_request(self, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    parse = serialize.parse_to_aware_datetime  # type: ignore[attr-defined]  # of botocore
    serialize.parse_to_aware_datetime = lru_cache(_TIMES)(parse)  # type: ignore[attr-defined]
    serving = make_server(
        "127.0.0.1", 0, create_backend_app("s3"), threaded=False, request_handler=_Quiet
    )
    print(serving.server_port, flush=True)  # noqa: T201  # whoever started it reads it
    serving.serve_forever()
