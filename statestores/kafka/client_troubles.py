"""Why a client does not reach its brokers, in its own words.

librdkafka tries again for as long as it is asked, and what it says in the end is that it has waited
in vain. What was wrong (a name that is nobody's, a certificate, a password) it tells on the way, to
a callback; and only to whoever polls.
"""

import re
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from statestores.kafka.client_settings import CLIENT_LOGGER

_MOST_TOLD = 100
"""How many troubles are told until there is an answer: each may have a port in it, or a number."""
_WHEN = re.compile(r" \(after \d+ms in state \w+[^)]*\)")


class ClientTroubles:
    """What one client has met last. Any thread may use it."""

    def __init__(self, also: Callable[[KafkaError], object] | None = None) -> None:
        """Tell *also* of everything: what the user gave as ``error_cb``."""
        self._also = also
        self._last: str | None = None
        self._told: set[str] = set()

    def note(self, error: KafkaError) -> None:
        """Keep what the client says, and log it once until it is answered."""
        if self._also is not None:
            self._also(error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  # it follows the reason
            return
        said = _WHEN.sub("", error.str())
        self._last = said
        if said not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(said)
            CLIENT_LOGGER.warning("a broker is not reached, and tried again: %s", said)

    def forget(self) -> None:
        """Note that the client was answered."""
        self._last = None
        self._told.clear()

    @property
    def last(self) -> str | None:
        """What it was, if anything since the last answer."""
        return self._last


def told_troubles(settings: dict[str, Any]) -> tuple[dict[str, Any], ClientTroubles]:
    """Return *settings* of a client that tells its troubles, and where they are told."""
    troubles = ClientTroubles(settings.get("error_cb"))
    # The client's own log has a line for each attempt, which may be 20 in a second.
    return {"log_level": _ONLY_CRITICAL, **settings, "error_cb": troubles.note}, troubles


_ONLY_CRITICAL = 2
