"""An application that answers: its own stores, and by asking its other instances, the rest.

Over HTTP any key may be asked of any instance; it asks whoever has it. Over Flight an instance
answers from what it has alone, so a question never goes round in circles.
"""

from contextlib import ExitStack

from statestores.query.metadata.host import Host
from statestores.query.metadata.membership import Membership
from statestores.query.routed_stores import RoutedStores
from statestores.query.running_stores import Runner
from statestores.serving.announcing import Announcer
from statestores.serving.flight.client import FlightStores
from statestores.serving.flight.server import FlightServer
from statestores.serving.http.server import HttpServer
from statestores.serving.served_runner import ChangeSource, ServedRunner
from statestores.serving.serving import Serving
from statestores.spi.closing import Closing
from statestores.state_root import StateRoot


class ApplicationServer(Closing):
    """Serves an instance of an application from its construction until `close` (SRV-22)."""

    def __init__(
        self,
        runner: Runner,
        membership: Membership,
        instance: str,
        serve: Serving | str,
        *,
        root: StateRoot | None = None,
        topology: str | None = None,
        changes: ChangeSource | None = None,
    ) -> None:
        """Listen, and say so to the others.

        Args:
            runner: What runs here; it may begin later.
            membership: Where this instance is told to the others, and finds them.
            instance: The name of this instance.
            serve: Where, and to whom.
            root: The state root that has the changelogs, if one has.
            topology: The picture of the topology, as Mermaid text.
            changes: Where changes are read, if not in *root*.

        Raises:
            InvalidTypeError, InvalidArgumentError: *serve* is neither a `Serving` nor a place.
            StorageError: A port is taken, or a certificate cannot be read.
            StateStoreError: Nobody can be told.
        """
        how = Serving.of(serve)
        served = ServedRunner(runner, root=root, topology=topology, changes=changes)
        with ExitStack() as opening:
            remote = opening.enter_context(
                FlightStores(
                    token=how.instance_access.token,
                    authority=how.authority,
                    certificate=how.instance_access.certificate,
                    private_key=how.instance_access.private_key,
                    timeout_s=how.timeout_s,
                )
            )
            self.queries = opening.enter_context(
                RoutedStores(
                    membership, remote, local=served, instance=instance, timeout_s=how.timeout_s
                )
            )
            flight = opening.enter_context(
                FlightServer(
                    served,
                    address=how.address,
                    port=how.flight_port,
                    instance=instance,
                    access=how.instance_access,
                    limits=how.limits,
                    advertised=how.advertised,
                )
            )
            http = opening.enter_context(
                HttpServer(
                    served,
                    address=how.address,
                    port=how.port,
                    instance=instance,
                    access=how.access,
                    limits=how.limits,
                    others=membership.instances,
                    flight=flight.host,
                    queries=self.queries,
                    advertised=how.advertised,
                )
            )
            self.url = http.url
            self.flight = flight.host
            opening.enter_context(
                Announcer(served, membership, instance, host=flight.host, http=http.host)
            )
            self._opened = opening.pop_all()

    queries: RoutedStores
    """The stores of the application, here and at its other instances, for this process."""

    url: str
    """Where HTTP and the page are."""

    flight: Host
    """Where Flight is."""

    def close(self) -> None:
        """Say that this instance is gone, answer what is being asked, and end. Idempotent."""
        self._opened.close()
