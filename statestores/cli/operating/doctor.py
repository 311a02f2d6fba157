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
from statestores.cli.operating.object_examination import ObjectExamination
from statestores.cli.operating.symptoms import Symptom
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError
from statestores.files.local_path import local_path
from statestores.storage import is_storage_url
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

    ROOT may be the URL of a state root in an object store, whose engines are not looked at.

    Example: statestores doctor state/
    """
    output = Output(json=json)
    found: list[Symptom] = []
    if is_storage_url(root) and local is not None:
        raise InvalidArgumentError(
            "the engines of an object store are not looked at; leave --local out for a URL"
        )
    with output.progress("examining") as progress:
        examination: Examination | ObjectExamination
        if is_storage_url(root):
            examination = ObjectExamination(
                url=root, with_rows=rows, changes=changes, progress=progress
            )
        else:
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
