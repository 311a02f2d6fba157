"""Says in words what is wrong with a store, and changes nothing.

    for finding in verify("state/"):
        print(finding.status, finding.check, finding.path, finding.detail)

Read `partition_checks` first: it puts the checks in their order.
"""

import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.verification.findings import Finding, Status
from statestores.verification.location_checks import check_location, verify
from statestores.verification.object_roots import check_object_root

__all__ = ["Finding", "Status", "check_location", "check_object_root", "verify"]
