"""The comparisons with other engines that a run makes, said as they are made."""

from collections.abc import Iterable

from rich.console import Console


class Checks:
    """The comparisons of one run."""

    def __init__(self, console: Console) -> None:
        """Say each comparison on *console*."""
        self._console = console
        self._failed = 0

    def expect(self, holds: bool, sentence: str, details: Iterable[str] = ()) -> None:  # noqa: FBT001  # reads as one
        """Say *sentence*, and that it is wrong, with *details*, unless it *holds*."""
        if holds:
            self._console.print(f"  [green]✓[/] {sentence}")
            return
        self._failed += 1
        self._console.print(f"  [bold red]✗ WRONG:[/] {sentence}")
        for detail in details:
            self._console.print(f"      {detail}", markup=False)

    @property
    def failed(self) -> int:
        """How many did not hold."""
        return self._failed
