"""The command `serve`: the stores of a state root over HTTP, with a page."""

import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from statestores.cli.access_options import (
    AccessFiles,
    CertificateOption,
    ClientAuthorityOption,
    InsecureOption,
    PrivateKeyOption,
    TokenOption,
)
from statestores.cli.arguments import JsonOption, RootArgument
from statestores.cli.output import Output
from statestores.cli.topology_module import load_topology
from statestores.query.metadata import LeaseMembership
from statestores.stopping import StopRequest, stopped_by_signals
from statestores.storage import is_storage_url

_LOOK_SECONDS = 0.1


def serve(
    root: RootArgument,
    *,
    address: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="HOST",
            help="Where to listen. Another address than this machine's own wants --certificate "
            "and a token or --client-authority.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port; 0 for any free one.")
    ] = 7070,
    flight_port: Annotated[
        int | None,
        typer.Option(
            "--flight-port",
            min=0,
            max=65_535,
            help="Serve by Arrow Flight as well, at this port; 0 for any free one.",
        ),
    ] = None,
    store: Annotated[
        list[str] | None,
        typer.Option("--store", metavar="NAME", help="This store; repeatable. Default: all."),
    ] = None,
    local: Annotated[
        Path | None,
        typer.Option(
            "--local",
            metavar="DIR",
            help="Keep the copies here, to go on from another time; by default they are temporary.",
        ),
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="NAME", help="The backend of the copies.")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            metavar="MODULE:TOPOLOGY",
            help="Show the picture of this one. The module is imported.",
        ),
    ] = None,
    token_file: TokenOption = None,
    certificate: CertificateOption = None,
    private_key: PrivateKeyOption = None,
    client_authority: ClientAuthorityOption = None,
    insecure: InsecureOption = False,
    json: JsonOption = False,
) -> None:
    """Serve the stores of a state root, which others may write: JSON, Arrow, metrics, and a page.

    A copy of each partition follows its changelog, and no lock is taken. ROOT may be the URL of one
    in an object store: nobody is fenced. Needs statestores[serve].

    Example: statestores serve state/ --port 7070
    """
    output = Output(json=json)
    serving: Any = import_module("statestores.serving")  # late: it needs another extra
    access = AccessFiles(
        certificate=certificate,
        private_key=private_key,
        client_authority=client_authority,
        insecure=insecure,
    ).access(token_file)
    access.check_address(address)
    picture = None if topology is None else load_topology(topology).mermaid()
    stop = StopRequest()
    with stopped_by_signals(stop.set), ExitStack() as stack:
        followed = stack.enter_context(
            serving.FollowedRoot(
                root, stores=store, local_directory=local, backend=backend, topology=picture
            )
        )
        flight = None
        if flight_port is not None:
            flight = stack.enter_context(
                serving.FlightServer(followed, address=address, port=flight_port, access=access)
            )
        # Instances leave their records in a directory only.
        others = None if is_storage_url(root) else LeaseMembership(root).instances
        server = stack.enter_context(
            serving.HttpServer(
                followed,
                address=address,
                port=port,
                access=access,
                flight=None if flight is None else flight.host,
                others=others,
            )
        )
        names = list(followed.store_names())
        if output.json:
            at = None if flight is None else str(flight.host)
            output.document({"url": server.url, "flight": at, "stores": names})
        else:
            also = "" if flight is None else f", and by Flight at {flight.host}"
            what = "1 store" if len(names) == 1 else f"{len(names)} stores"
            output.line(f"serving {what} at {server.url}{also}")
        sys.stdout.flush()  # whoever waits for the address may read a pipe
        while not stop.wait(_LOOK_SECONDS):
            pass
