"""What standbys copy: changelogs in directories and in object stores, read while they grow."""
