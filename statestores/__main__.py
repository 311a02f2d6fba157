"""``python -m statestores`` is the command line, `statestores`."""

from statestores.cli import main

main()
