"""Python imports this when it starts: those that Spark starts are forked with what they need.

Only the session of the tests has this directory on its path; the programs that tests start have
Spark's own planners. What serves is `forked_pythons.py`, beside this directory.
"""

import os
import sys


def _be_forked(address: str, arguments: list[str]) -> None:
    """Have another process do what this one was started for, and end as it does."""
    import json  # noqa: PLC0415  # most of what starts here does not come so far
    import socket  # noqa: PLC0415

    request = {
        "arguments": arguments,
        "directory": os.getcwd(),  # noqa: PTH109  # pathlib takes as long to import as the rest
        "environment": dict(os.environ),
        "path": sys.path,
    }
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        said = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(server, [said], [0, 1, 2])
        server.sendall(said[sent:])
        code = server.recv(16)
        os._exit(int(code))


if "STATESTORES_TEST_PYTHONS" in os.environ and "-m" in sys.orig_argv:
    _arguments = sys.orig_argv[sys.orig_argv.index("-m") + 1 :]
    if _arguments[0].startswith(("pyspark.", "statestores.spark.")):
        _be_forked(os.environ["STATESTORES_TEST_PYTHONS"], _arguments)
