"""Packages that others use instead: one that cannot be imported is reported by name."""

import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTIONS = {"faust": "faust-streaming"}
"""Modules whose distribution has another name."""


def why_absent(modules: list[str]) -> str | None:
    """Return why one of *modules* cannot be imported, or ``None`` when all of them can.

    Packages for comparison break in their own ways on import, and a benchmark of the others must go
    on: so whatever is raised is the reason.
    """
    for module in modules:
        distribution = DISTRIBUTIONS.get(module, module)
        try:
            with warnings.catch_warnings(action="ignore"):  # not ours to fix
                import_module(module)
        except ModuleNotFoundError as error:
            if error.name == module:
                return f"{distribution} is not installed"
            return f"{distribution} cannot be imported: {error}"
        except Exception as error:  # noqa: BLE001  # see above
            return f"{distribution} cannot be imported: {type(error).__name__}: {error}"
    return None


def version_of(distribution: str) -> str:
    """Return the installed version of *distribution*, or ``not installed``."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"
