"""Says which extra to install where Arrow is missing; modules that need Arrow import this first.

Nothing is imported here: a Spark worker looks for its data sources again and again.
"""

from statestores.serdes.optional_packages import require_installed

for _package in ("numpy", "pyarrow", "google_crc32c"):
    require_installed(_package, purpose="what has a changelog or a snapshot", extra="arrow")
