"""What is closed at the end of a ``with`` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Something that holds a resource until it is closed, and closes with its ``with`` block."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Give the resource up. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
