"""An instance publishes itself: at once, again and again, and that it is gone."""

from contextlib import suppress
from threading import Event, Thread

from statestores.errors import StateStoreError
from statestores.query.metadata.host import Host
from statestores.query.metadata.membership import Membership
from statestores.serving.served import Served, instance_of
from statestores.spi.closing import Closing

INTERVAL_S = 0.5
"""How often an instance gives a sign of life: ten times within a lease."""


class Announcer(Closing):
    """Publishes what is served, from its construction until `close`."""

    def __init__(
        self,
        served: Served,
        membership: Membership,
        instance: str,
        *,
        host: Host | None = None,
        http: Host | None = None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """Publish *served* as *instance*, whose queries are answered at *host*.

        Raises:
            StateStoreError: It cannot be published now.
        """
        self._served, self._membership, self._instance = served, membership, instance
        self._host, self._http, self._interval_s = host, http, interval_s
        self._stop = Event()
        self.publish()
        self._thread = Thread(target=self._run, name=f"announce-{instance}", daemon=True)
        self._thread.start()

    def publish(self) -> None:
        """Say now what is here; after an assignment, so that nobody asks in vain.

        Raises:
            StateStoreError: It cannot be said.
        """
        self._membership.publish(
            instance_of(self._served, self._instance, host=self._host, http=self._http)
        )

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            with suppress(StateStoreError):  # the next sign of life may get through
                self.publish()

    def close(self) -> None:
        """Say that this instance is gone. Idempotent."""
        self._stop.set()
        self._thread.join()
        with suppress(StateStoreError):
            self._membership.leave(self._instance)
