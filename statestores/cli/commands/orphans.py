"""The command `orphans`: what lies among local engines and belongs to no store."""

from statestores.cli.arguments import CsvOption, JsonOption, LocalOption, RootArgument
from statestores.cli.columns import Column
from statestores.cli.output import Output
from statestores.state_root import StateRoot
from statestores.tasks.local_directory import LocalDirectory


def orphans(
    root: RootArgument,
    *,
    local: LocalOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Say what lies in a directory of engines and belongs to no store of the state root.

    Nothing is removed. An application removes engines that are no longer assigned to it with
    TaskManager.clean_up.

    Example: statestores orphans state/ --local /mnt/disk/state
    """
    state = StateRoot.open(root)
    found = LocalDirectory(state.path if local is None else local).orphans(state)
    Output(json=json, csv=csv).rows(
        (Column("path", "path"), Column("reason", "reason"), Column("bytes", "bytes")),
        [(str(orphan.path), orphan.reason, orphan.bytes) for orphan in found],
    )
