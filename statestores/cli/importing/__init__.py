"""The commands that take stores over: from files, and from other libraries."""
