"""A state root with a store of every kind, written by one process, and what serves it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import plain_http
import pytest

import statestores as ss
from statestores.serving import FollowedRoot, HttpServer, ServedTasks
from statestores.tasks import TaskId, TaskManager

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)

from served_shop import PARTITIONS, STORES, Shop, fill  # noqa: E402  # of the kit

collect_ignore = ["kit"]

PICTURE = (
    'flowchart TD\n  t0(["words"])\n  n0["count"]\n  s0[("counts")]\n  t0 --> n0\n  n0 --- s0\n'
)


@contextmanager
def opened_shop(path: Path) -> Iterator[Shop]:
    """Run an application that has counted, seen, rated and windowed twenty words."""
    root = ss.StateRoot.create(path / "state")
    for specification in STORES:
        root.add_store(specification, partitions=PARTITIONS)
    with TaskManager(
        root,
        {0: [each.name for each in STORES]},
        local_directory=path / "local",
        backend="memory",
        durability=ss.Durability.PROCESS_CRASH,
    ) as manager:
        manager.assign([TaskId(0, number) for number in range(PARTITIONS)])
        fill(manager)
        yield Shop(root, manager, ServedTasks(manager, topology=PICTURE))


@contextmanager
def opened_web(shop: Shop) -> Iterator[tuple[HttpServer, httpx.Client]]:
    """Serve *shop* over HTTP, and give a client."""
    with (
        HttpServer(shop.served) as server,
        plain_http.client(base_url=server.url, timeout=30) as client,
    ):
        yield server, client


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Run an application that nobody changes."""
    with opened_shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture(scope="module")
def served_web(shop: Shop) -> Iterator[tuple[HttpServer, httpx.Client]]:
    """Serve it over HTTP."""
    with opened_web(shop) as served:
        yield served


@pytest.fixture
def server(served_web: tuple[HttpServer, httpx.Client]) -> HttpServer:
    """Return its server."""
    return served_web[0]


@pytest.fixture
def web(served_web: tuple[HttpServer, httpx.Client]) -> httpx.Client:
    """Return a client of the server."""
    return served_web[1]


@pytest.fixture
def own_shop(tmp_path: Path) -> Iterator[Shop]:
    """Run an application that the test may change."""
    with opened_shop(tmp_path) as shop:
        yield shop


@pytest.fixture
def own_web(own_shop: Shop) -> Iterator[httpx.Client]:
    """Return a client of a server of that."""
    with opened_web(own_shop) as (_, client):
        yield client


@pytest.fixture
def followed(own_shop: Shop) -> Iterator[FollowedRoot]:
    """Follow the root from outside."""
    with FollowedRoot(own_shop.root, backend="memory", follow_interval_s=3600) as root:
        yield root


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with an authority, and certificates of a server and a client of it."""
    path = tmp_path_factory.mktemp("authority")

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=path, check=True, capture_output=True)  # noqa: S607  # the machine's own

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    # From Python 3.13 on certificates are judged strictly (RFC 5280): what they are for is said.
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    of_authority = ("-out", "ca.pem", "-days", "2", "-subj", "/CN=ca")
    run("req", "-x509", *key, *usage, "-keyout", "ca.key", *of_authority)
    (path / "names").write_text(
        "subjectAltName=DNS:localhost,IP:127.0.0.1\n"
        "subjectKeyIdentifier=hash\n"
        "authorityKeyIdentifier=keyid\n"
    )
    for name in ("server", "client"):
        run("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        run("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem", "-days", "2")
    return path
