"""A backend whose driver is not installed."""

import no_such_driver  # noqa: F401  # a package that is not installed
