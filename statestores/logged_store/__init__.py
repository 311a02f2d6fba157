"""Stores whose changes are in their changelog before they are in the store."""

from statestores.logged_store.catching_up import join_changelog
from statestores.logged_store.opening import AnyRoot, open_logged_store
from statestores.logged_store.store import LoggedStore

__all__ = ["AnyRoot", "LoggedStore", "join_changelog", "open_logged_store"]
