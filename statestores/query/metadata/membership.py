"""Who takes part in an application: a protocol, and a list that never changes.

Whoever says who is there says it of instances, never of keys: the rest is `ApplicationMetadata`.
"""

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Protocol

from statestores.errors import StateStoreError
from statestores.query.metadata.host import Host
from statestores.query.metadata.instance import InstanceMetadata


class Membership(Protocol):
    """Where instances publish themselves, and find the others. Any thread may use it."""

    def publish(self, instance: InstanceMetadata) -> None:
        """Say what *instance*, this one, is and has now; again and again, as a sign of life.

        Raises:
            StateStoreError: It cannot be said; try again at the next sign of life.
        """

    def leave(self, instance: str) -> None:
        """Say that *instance*, this one, is gone. What was never there is no error.

        Raises:
            StateStoreError: It cannot be said; without signs of life the others notice as well.
        """

    def instances(self) -> Mapping[str, InstanceMetadata]:
        """Return the instances that are alive, as far as is known here, by their names.

        Raises:
            StateStoreError: It cannot be found out.
        """


class StaticMembership:
    """Instances whose hosts are written down. What they have, each is asked."""

    def __init__(
        self, hosts: Iterable[Host | str], ask: Callable[[Host], InstanceMetadata]
    ) -> None:
        """Know *hosts*; *ask* is how one of them says what it has now.

        Raises:
            InvalidTypeError, InvalidArgumentError: Something is no host.
        """
        self._hosts = [Host.of(each) for each in hosts]
        self._ask = ask
        self._lock = Lock()
        self._own: dict[str, InstanceMetadata] = {}

    def publish(self, instance: InstanceMetadata) -> None:
        """Know it here; the others ask for it."""
        with self._lock:
            self._own[instance.instance] = instance

    def leave(self, instance: str) -> None:
        """Forget it here."""
        with self._lock:
            self._own.pop(instance, None)

    def instances(self) -> Mapping[str, InstanceMetadata]:
        """Ask every host; those that do not answer are not there."""
        with self._lock:
            found = dict(self._own)
        own = {each.host for each in found.values()}
        for host in self._hosts:
            if host in own:
                continue
            try:
                answer = self._ask(host)
            except StateStoreError as error:
                if not error.retryable:
                    raise
                continue
            found.setdefault(answer.instance, answer)
        return found
