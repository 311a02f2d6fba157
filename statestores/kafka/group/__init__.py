"""An instance in its group: what it is assigned, who else is there, and when all are done."""
