"""What replaces a closed store's pending writes."""

from typing import Any, NoReturn

from statestores.errors import StoreClosedError


class ClosedRows(dict[Any, Any]):
    """Takes the place of the pending writes when a store closes, so that no path needs a test.

    The hot paths go to the pending writes first; here each way in raises `StoreClosedError`.
    """

    def __init__(self, why: str) -> None:
        """Refuse by *why*: what is closed, and what to do."""
        super().__init__()
        self._why = why

    def _refuse(self, *arguments: object) -> NoReturn:
        raise StoreClosedError(self._why)

    get = __getitem__ = __setitem__ = __contains__ = _refuse
    __len__ = __iter__ = items = copy = setdefault = _refuse
