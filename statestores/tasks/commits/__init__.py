"""The commit of several stores as one: its record, what it emits, and which stores have had one."""
