"""The server of a run: begun when the run has joined, and ended with it (SRV-22)."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

from statestores.errors import InvalidArgumentError
from statestores.processing.local.sharing.state_membership import StateMembership
from statestores.processing.local.sharing.task_share import TaskShare
from statestores.processing.serve_argument import serving_of
from statestores.processing.topology import Graph, as_mermaid
from statestores.query.running_stores import Runner

if TYPE_CHECKING:
    from statestores.serving import ApplicationServer, Serving


def checked(serve: "Serving | str | None", endpoint: str | None) -> "Serving | None":
    """Return what ``serve=`` says.

    Raises:
        MissingDriverError: The extra ``serve`` is not installed.
        InvalidTypeError, InvalidArgumentError: It is no place; or an *endpoint* is given as well.
    """
    if serve is not None and endpoint is not None:
        raise InvalidArgumentError(
            f"give serve or endpoint, not both: serve says where it answers; got {endpoint!r}"
        )
    return serving_of(serve)


def begin_to_answer(
    stack: ExitStack, runner: Runner, share: TaskShare, graph: Graph, serve: "Serving"
) -> "ApplicationServer":
    """Answer queries until *stack* ends, and say where in the file of this process.

    Raises:
        StorageError: A port is taken, or a certificate cannot be read.
    """
    from statestores.serving import ApplicationServer  # noqa: PLC0415  # late: it needs an extra

    server = stack.enter_context(
        ApplicationServer(
            runner,
            StateMembership(share.root.path),
            share.instance,
            serve,
            root=share.root,
            topology=as_mermaid(graph),
        )
    )
    share.endpoint = str(server.flight)
    return server
