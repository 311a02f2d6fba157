"""Requests over plain HTTP that read no authorities first.

Each client of httpx has a context for TLS, with the authorities of the whole world unless it is
given another one: 30 to 80 ms of the processor, for each ``httpx.get``, and tests ask again and
again until something is there.
"""

import ssl
from typing import Any

import httpx

_KNOWS_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""It trusts no certificate."""


def client(**options: Any) -> httpx.Client:
    """Return a client that takes no proxy from the environment."""
    return httpx.Client(trust_env=False, verify=_KNOWS_NOBODY, **options)


def get(url: str, **options: Any) -> httpx.Response:
    """Ask *url* once."""
    return httpx.get(url, trust_env=False, verify=_KNOWS_NOBODY, **options)
