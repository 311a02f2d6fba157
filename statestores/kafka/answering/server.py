"""The server of an instance: begun before anything is restored, and ended with the run (SRV-22)."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

from statestores.kafka.answering.changelog_feed import ChangelogFeed
from statestores.kafka.answering.topic_membership import TopicMembership
from statestores.kafka.client_settings import ClientSettings
from statestores.processing.topology import Graph, as_mermaid
from statestores.query.running_stores import Runner

if TYPE_CHECKING:
    from statestores.serving import ApplicationServer, Serving


def begin_to_answer(
    stack: ExitStack,
    runner: Runner,
    membership: TopicMembership,
    instance: str,
    graph: Graph,
    settings: ClientSettings,
    serve: "Serving",
) -> "ApplicationServer":
    """Answer queries until *stack* ends, and say so to the other instances.

    Raises:
        StorageError: A port is taken, or a certificate cannot be read.
        BrokerError: The others cannot be told.
    """
    from statestores.serving import ApplicationServer  # noqa: PLC0415  # late: it needs another extra

    stack.enter_context(membership)
    changes = stack.enter_context(ChangelogFeed(settings, graph))
    return stack.enter_context(
        ApplicationServer(
            runner, membership, instance, serve, topology=as_mermaid(graph), changes=changes
        )
    )
