#!/usr/bin/env bash
# Prints the Python that the virtual environment is made of: 3.11 or newer, able to make one.
# The oldest supported version comes first: a function that is too new fails early there. `PYTHON` in
# the environment overrides the list.
# The distribution's own comes before a python3.11 that PATH has first, of pyenv for instance: where
# one is built with a shared library of its own, tests take 5 to 14 % more of the processor.
set -euo pipefail

incapable=""
for name in ${PYTHON:-/usr/bin/python3.11 python3.11 python3.12 python3.13 python3.14 python3 python}; do
    "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    if "$name" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "$name"
        exit 0
    fi
    incapable=${incapable:-$name}
done

if [ -n "$incapable" ]; then
    echo "setup: $incapable cannot create virtual environments (no ensurepip); on Debian or Ubuntu: apt-get install python3-venv" >&2
else
    echo "setup: found no Python 3.11 or newer (looked for: ${PYTHON:-/usr/bin/python3.11 python3.11 python3.12 python3.13 python3.14 python3 python}); install one, or name it: make setup PYTHON=/path/to/python3.11" >&2
fi
exit 1
