"""A backend whose driver is not installed."""

import no_such_driver  # type: ignore[import-not-found]  # noqa: F401  # is installed nowhere
