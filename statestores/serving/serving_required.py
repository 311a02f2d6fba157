"""Says which extra to install where the web server is missing; the HTTP face imports it first."""

from statestores.serdes.optional_packages import require_installed

for _package in ("starlette", "uvicorn"):
    require_installed(_package, purpose="serving over HTTP", extra="serve")
