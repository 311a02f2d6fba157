"""Says which extra to install where Spark is missing; modules that need Spark import this first."""

import statestores.serdes.arrow_required  # noqa: F401
from statestores.serdes.optional_packages import require_installed

require_installed("pyspark", purpose="statestores.spark", extra="spark")
