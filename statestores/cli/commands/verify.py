"""The command `verify`."""

from collections.abc import Iterator
from typing import Annotated

import typer

from statestores.arrow.progress import Meter
from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    LocalOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.locations import choose_stores, locate_store
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError
from statestores.reading.locations import Root
from statestores.state_root import StateRoot
from statestores.storage import is_storage_url
from statestores.verification import Finding, check_location, check_object_root

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
    local: LocalOption = None,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Check checksums, order, offsets and rows, and that a store equals its changelog.

    Exit code 1 when something is damaged, when keys are not where reads look for them, or when
    something could not be checked because its owner has it open.

    PATH may be the URL of a state root in an object store: every frame that counts is read then,
    beside whoever has the stores open.

    Example: statestores verify state/
    """
    output = Output(json=json)
    options = parse_backend_options(backend_option)
    is_url = is_storage_url(path)
    if is_url and local is not None:
        raise InvalidArgumentError(
            "--local names the engines of a state root in a directory; leave it out for a URL"
        )
    location = None if is_url else locate_store(path, store, local)
    stores = choose_stores(location, store) if isinstance(location, Root) and store else None
    findings = []
    with output.progress("verifying") as progress:
        for finding in (
            _check_objects(path, store, Meter(progress))
            if location is None
            else check_location(
                location, stores, options=options, with_engine=engine, progress=progress
            )
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


def _check_objects(url: str, store: str | None, meter: Meter) -> Iterator[Finding]:
    """Check the root at *url*, or one *store* of it."""
    root = StateRoot.open(url)
    stores = None if store is None else [root.store(store).specification.name]
    return check_object_root(root, stores, meter=meter)
