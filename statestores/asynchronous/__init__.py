"""Stores for asyncio, each on a thread of its own."""

from statestores.asynchronous.owner_thread import AsyncStateStore, open_async

__all__ = ["AsyncStateStore", "open_async"]
