"""The source of the modules that are changed, as it was when the run began."""

from collections.abc import Iterable

from statestores_mutation.exchange import path_of


class SourceChangedError(Exception):
    """Somebody has edited a module during the run: what comes next would be of other code."""


class Sources:
    """What each module said when the run began, and whether it still says so.

    Mutants are named by their lines, found again by their first lines, and written over what is
    imported; a verdict on a module that was edited in between is of neither the old nor the new.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        self._texts = {module: path_of(module).read_bytes() for module in modules}

    @property
    def modules(self) -> list[str]:
        """The modules, in the order in which they were given."""
        return list(self._texts)

    def text(self, module: str) -> str:
        """Return what *module* said."""
        return self._texts[module].decode("utf-8")

    def check(self) -> None:
        """Compare each module with its file.

        Raises:
            SourceChangedError: One of them differs, or is gone.
        """
        changed = [module for module, text in self._texts.items() if _now(module) != text]
        if changed:
            raise SourceChangedError(
                f"changed while its mutants were judged: {', '.join(changed)}; the verdicts stored "
                "so far are of the source as it was, no other is stored"
            )


def _now(module: str) -> bytes | None:
    try:
        return path_of(module).read_bytes()
    except FileNotFoundError:
        return None
