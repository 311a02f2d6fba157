"""Staged writes at the address that programs know; see `statestores.staging`."""

from statestores.staging.staged_write import publish, publishing, stage

__all__ = ["publish", "publishing", "stage"]
