"""moto's S3 in one thread: one request at a time, so that its check before a put is atomic.

    python serial_s3.py         prints its port

Other servers for tests, and moto with threads, have several winners on one name.
"""

# moto does not say what it exports.
from moto.server import (  # type: ignore[attr-defined]
    DomainDispatcherApplication,
    create_backend_app,
)
from werkzeug.serving import WSGIRequestHandler, make_server


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.0"  # a connection that is kept would hold the one thread

    def log_request(self, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    serving = make_server(
        "127.0.0.1",
        0,
        DomainDispatcherApplication(create_backend_app),
        threaded=False,
        request_handler=_Quiet,
    )
    print(serving.server_port, flush=True)  # noqa: T201  # whoever started it reads it
    serving.serve_forever()
