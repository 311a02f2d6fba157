"""The command `verify`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer

from statestores.arrow.progress import Progress
from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.locations import (
    ChangelogDirectory,
    Location,
    Partition,
    Root,
    SnapshotDirectory,
    locate,
)
from statestores.cli.output import Output
from statestores.cli.verification.files import check_changelog, check_snapshot
from statestores.cli.verification.findings import Finding, Status
from statestores.cli.verification.partition_checks import check_partition
from statestores.cli.verification.row_walk import Tell
from statestores.errors import StateStoreError
from statestores.partitioning import partitioner_by_name
from statestores.write_intent import read_intent

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
    location = locate(path)
    findings = []
    with _rows_told(output) as tell:
        for finding in _findings(location, store, options, tell, with_engine=engine):
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


def _findings(
    location: Location,
    store: str | None,
    options: Mapping[str, object],
    tell: Tell | None,
    *,
    with_engine: bool,
) -> Iterator[Finding]:
    """Yield what is found at *location*."""
    match location:
        case Root():
            chosen = store or location.store
            names = sorted(location.root.stores) if chosen is None else [location.choose(store)]
            for name in names:
                yield _check_store(location, name)
                for partition in location.partitions(name):
                    yield from check_partition(
                        partition, options, with_engine=with_engine, tell=tell
                    )
        case Partition():
            yield from check_partition(location, options, with_engine=with_engine, tell=tell)
        case ChangelogDirectory():
            yield check_changelog(location.path, None)[0]
        case SnapshotDirectory():
            yield check_snapshot(location.path)[0]


def _check_store(location: Root, name: str) -> Finding:
    """Check what the state root says about a store, and the note of its last staged write."""
    directory = location.root.path / name
    entry = location.root.store(name)
    try:
        partitioner_by_name(entry.specification.partitioner)
        intent = read_intent(directory)
    except StateStoreError as error:
        return Finding("store", directory, Status.DAMAGED, str(error))
    strangers = [
        each.name
        for each in (directory.iterdir() if directory.is_dir() else ())
        if each.name.isdigit() and int(each.name) >= entry.partitions
    ]
    if strangers:
        words = f"there is a partition {strangers[0]}, and the store has {entry.partitions}"
        return Finding("store", directory, Status.DAMAGED, words)
    words = f"{entry.specification.kind}, partitions: {entry.partitions}"
    if intent is not None and not intent.finished:
        words += f"; the write {intent.write_id!r} is committed, and the next writer finishes it"
    return Finding("store", directory, Status.OK, words)


@contextmanager
def _rows_told(output: Output) -> Iterator[Tell | None]:
    """Give what shows how many rows have been read, if that can be seen."""
    with output.progress("verifying") as progress:
        if progress is None:
            yield None
            return
        done = 0

        def tell(rows: int) -> None:
            nonlocal done
            done += rows
            progress(Progress(rows=done, bytes=0))

        yield tell
