"""The command `reset`: a topology begins anew; first it says what that removes."""

from pathlib import Path
from typing import Annotated

import typer

from statestores.cli.arguments import JsonOption
from statestores.cli.columns import Column
from statestores.cli.output import Output
from statestores.cli.topology_module import TopologyArgument, load_topology
from statestores.processing.local.resetting import Reset, plan_reset


def reset(
    topology: TopologyArgument,
    *,
    local: Annotated[
        Path,
        typer.Option(
            "--local", metavar="DIR", help="Where state and topics lie: DIR/state and DIR/topics."
        ),
    ],
    outputs: Annotated[
        bool,
        typer.Option(
            "--outputs/--keep-outputs",
            help="Also remove the topics that the topology writes and does not read, or keep them, "
            "so that the next run appends to them.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it. Without, it is only said what would go.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """WRITES, with --yes: remove the state of a topology and its internal topics.

    The next run begins with the first record that its topics still have, and reads its sources from
    the beginning. Topics that the topology reads stay, and so do files that a sink has written:
    remove those too if they are to be written anew. Nothing is removed while a process runs the
    topology. A reset that is killed is ended by the next one; until then, no run begins.

    Example: statestores reset shop.counting:topology --local data --outputs --yes
    """
    output = Output(json=json)
    planned = plan_reset(
        load_topology(topology), state=local / "state", topics=local / "topics", outputs=outputs
    )
    columns = (
        Column("what", "what"),
        Column("name", "name"),
        Column("path", "path"),
        Column("bytes", "bytes"),
    )
    rows = [(item.what, item.name, str(item.path), item.bytes) for item in planned.items]
    output.rows(columns, rows)
    for line in _remarks(planned):
        output.remark(line)
    if not yes:
        if planned.items:
            output.remark("nothing was removed; --yes removes it")
        return
    planned.carry_out()
    output.remark(f"removed {len(planned.items)} of {len(planned.items)}")


def _remarks(planned: Reset) -> list[str]:
    """Return what is to be known besides what goes."""
    if not planned.items:
        where = str(planned.state)
        return [f"there is nothing to remove: no state in {where!r}, and no topic that would go"]
    remarks = ["an earlier reset has not ended; this is the rest of it"] * planned.is_begun
    remarks += [
        f"{place.topic!r}, partition {place.partition}, was processed up to offset {offset - 1}, "
        "and will be from its beginning"
        for place, offset in planned.positions.items()
    ]
    remarks += [
        f"the source of {topic!r} will be read from the beginning" for topic in planned.sources
    ]
    return remarks
