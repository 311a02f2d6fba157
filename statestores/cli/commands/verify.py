"""The command `verify`."""

from typing import Annotated

import typer

from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.locations import choose_stores, locate_store
from statestores.cli.output import Output
from statestores.reading.locations import Root
from statestores.verification import check_location

_FAILED = 1


def verify(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A state root, one of its stores, a partition, a changelog or a snapshot.",
        ),
    ],
    *,
    engine: Annotated[
        bool,
        typer.Option(
            "--engine/--no-engine",
            help="Also open the engines, which takes their locks; or only files.",
        ),
    ] = True,
    store: StoreOption = None,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Check checksums, order, offsets and rows, and that a store equals its changelog.

    Exit code 1 when something is damaged, when keys are not where reads look for them, or when
    something could not be checked because its owner has it open.

    Example: statestores verify state/
    """
    output = Output(json=json)
    options = parse_backend_options(backend_option)
    location = locate_store(path, store)
    stores = choose_stores(location, store) if isinstance(location, Root) else None
    findings = []
    with output.progress("verifying") as progress:
        for finding in check_location(
            location, stores, options=options, with_engine=engine, progress=progress
        ):
            findings.append(finding)
            if not json:
                output.finding(finding.status, finding.check, str(finding.path), finding.detail)
    failures = [finding for finding in findings if finding.is_failure]
    if json:
        output.document(
            {
                "ok": not failures,
                "checks": [
                    {
                        "check": finding.check,
                        "path": str(finding.path),
                        "status": finding.status.value,
                        "detail": finding.detail,
                    }
                    for finding in findings
                ],
            }
        )
    elif failures:
        output.remark(f"failed checks: {len(failures)} of {len(findings)}")
    else:
        output.remark(f"checks: {len(findings)}; nothing is wrong")
    if failures:
        raise typer.Exit(_FAILED)
