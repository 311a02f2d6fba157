"""The command `doctor`: everything that is wrong with a state root, and what mends it."""

from pathlib import Path
from typing import Annotated

import typer

from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    LocalOption,
    parse_backend_options,
)
from statestores.cli.operating.examination import Examination
from statestores.cli.operating.root_partitions import refuse_url
from statestores.cli.operating.symptoms import Symptom
from statestores.cli.output import Output
from statestores.files.local_path import local_path
from statestores.text.values import as_text

_TROUBLE = 1


def doctor(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="A state root.")],
    *,
    engine: Annotated[
        bool,
        typer.Option(
            "--engine/--no-engine",
            help="Open engines that nobody has open, which takes their locks meanwhile.",
        ),
    ] = True,
    rows: Annotated[
        bool,
        typer.Option("--rows/--no-rows", help="Read every row, as verify does; or look quickly."),
    ] = True,
    changes: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="More changes since the newest snapshot are a long restore."
        ),
    ] = 100_000,
    local: LocalOption = None,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Say what is wrong with a state root, what that means, and which command mends it.

    Nothing is mended: the commands are yours to run, once you have read what they do. Exit code 1
    for an error or a warning; notes alone are no trouble.

    Example: statestores doctor state/
    """
    refuse_url(root)
    output = Output(json=json)
    found: list[Symptom] = []
    with output.progress("examining") as progress:
        examination = Examination(
            root=local_path(root),
            local=None if local is None else Path(local).absolute(),
            with_engine=engine,
            with_rows=rows,
            changes=changes,
            options=parse_backend_options(backend_option),
            progress=progress,
        )
        for symptom in examination.symptoms():
            found.append(symptom)
            if not json:
                _show(output, symptom)
    trouble = [each for each in found if each.is_trouble]
    if json:
        output.document({"ok": not trouble, "symptoms": [each.as_json() for each in found]})
    elif trouble:
        output.remark(f"troubles: {len(trouble)}, notes: {len(found) - len(trouble)}")
    else:
        output.remark(f"nothing is wrong; notes: {len(found)}")
    if trouble:
        raise typer.Exit(_TROUBLE)


def _show(output: Output, symptom: Symptom) -> None:
    """Print *symptom* for people."""
    ailment = symptom.ailment
    output.finding(ailment.severity.value, ailment.code, str(symptom.path), symptom.detail)
    output.facts(
        [("meaning", as_text(ailment.meaning)), ("command", symptom.command or "none mends it")]
    )
