"""``python -m statestores.cli`` is `statestores`."""

from statestores.cli import main

main()
