"""Stores served to other processes: over HTTP, with a page, and over Arrow Flight.

Read `served` first, then `query`, `reads` and `answers`; the faces only carry these.
"""

import statestores.serdes.arrow_required  # before what needs Arrow
import statestores.serving.serving_required  # noqa: F401  # before what needs the web server

# isort: split
from statestores.serving.access import Access
from statestores.serving.announcing import Announcer
from statestores.serving.application_server import ApplicationServer
from statestores.serving.asynchronous import AsyncStores
from statestores.serving.awaited_stores import (
    AsyncKeyValueStore,
    AsyncSessionStore,
    AsyncStore,
    AsyncTimestampedKeyValueStore,
    AsyncVersionedStore,
    AsyncWindowStore,
)
from statestores.serving.flight.client import FlightStores
from statestores.serving.flight.server import FlightServer
from statestores.serving.followed_root import FollowedRoot
from statestores.serving.http.server import HttpServer
from statestores.serving.limits import Limits
from statestores.serving.served import Served, ServedTasks, instance_of
from statestores.serving.served_runner import ServedRunner
from statestores.serving.serving import Serving

__all__ = [
    "Access",
    "Announcer",
    "ApplicationServer",
    "AsyncKeyValueStore",
    "AsyncSessionStore",
    "AsyncStore",
    "AsyncStores",
    "AsyncTimestampedKeyValueStore",
    "AsyncVersionedStore",
    "AsyncWindowStore",
    "FlightServer",
    "FlightStores",
    "FollowedRoot",
    "HttpServer",
    "Limits",
    "Served",
    "ServedRunner",
    "ServedTasks",
    "Serving",
    "instance_of",
]
