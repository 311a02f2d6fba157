"""The partitions of a store written anew, in another number of them.

`reshard` is the way in. Its work is two sets of tasks that need nothing of each other: `routing`
reads each old partition and splits its rows by the partition that they go to, and `building` makes
each new partition of what is there for it. `fence` says who may not be at work meanwhile.
"""

from statestores.resharding.reshard import reshard
from statestores.resharding.sizes import ReshardPlan, plan_reshard
from statestores.resharding.work import Each, ReshardReport

__all__ = ["Each", "ReshardPlan", "ReshardReport", "plan_reshard", "reshard"]
