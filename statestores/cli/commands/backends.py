"""The command `backends`: which engines there are, and which can be used here."""

from statestores.cli.arguments import CsvOption, JsonOption
from statestores.cli.columns import Column
from statestores.cli.output import Output, named
from statestores.errors import MissingDriverError, StateStoreError
from statestores.registry import available_backends
from statestores.spi.engine import Engine

_COLUMNS = (
    Column("name", "backend"),
    Column("usable", "usable", lambda usable: "yes" if usable else "no"),
    Column("capabilities", "capabilities", ", ".join),
    Column("problem", "what is missing"),
    Column("install", "install with"),
)


def backends(*, json: JsonOption = False, csv: CsvOption = False) -> None:
    """List the registered backends: usable or what is missing, and what they promise.

    Example: statestores backends --json
    """
    output = Output(json=json, csv=csv)
    rows = [_row(name, found) for name, found in available_backends().items()]
    if json:
        output.document(named(_COLUMNS, rows))
    else:
        output.rows(_COLUMNS, rows)


def _row(name: str, found: type[Engine] | StateStoreError) -> tuple[object, ...]:
    if isinstance(found, StateStoreError):
        missing = isinstance(found, MissingDriverError)
        install = f"pip install 'statestores[{name}]'" if missing else None
        return name, False, [], str(found), install
    capabilities = [name for name, made in found.capabilities.promises.items() if made]
    return name, True, capabilities, None, None
