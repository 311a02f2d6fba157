"""Files and directories that survive a crash, and what is refused in their place."""
