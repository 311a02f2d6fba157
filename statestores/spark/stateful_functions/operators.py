"""Which operators there are in a state root, and who runs one."""

from statestores.root_document import OPERATORS_DIRECTORY
from statestores.spark.given_root import GivenRoot
from statestores.spark.stateful_functions.batches import MicroBatches
from statestores.spark.stateful_functions.micro_batch import OperatorBatches
from statestores.spark.stateful_functions.object_batches import ObjectMicroBatches
from statestores.spark.stateful_functions.plan import StatefulPlan


def operator_batches(plan: StatefulPlan) -> OperatorBatches:
    """Return what runs the micro-batches of *plan*."""
    return MicroBatches(plan) if plan.place.directory is not None else ObjectMicroBatches(plan)


def operators_in(root: GivenRoot) -> list[str]:
    """Return the names of the operators that have been at work on *root*, in order.

    Raises:
        StorageError: It cannot be looked into.
    """
    if root.directory is not None:
        directory = root.directory / OPERATORS_DIRECTORY
        return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    prefix = f"{OPERATORS_DIRECTORY}/"
    names = (each.name.removeprefix(prefix) for each in root.objects.list(prefix))
    return sorted({name.partition("/")[0] for name in names})
