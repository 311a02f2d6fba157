"""Says which extra to install where Arrow is missing; what needs Arrow imports this first."""

from statestores.serdes.optional_packages import require

for _package in ("numpy", "pyarrow", "google_crc32c"):
    require(_package, purpose="what has a changelog or a snapshot", extra="arrow")
