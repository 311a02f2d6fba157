#!/usr/bin/env bash
# Creates the virtual environment $1 with the project, every extra and the tools, at the pinned versions.
# Needs Python 3.11 or newer with `venv`, and nothing else installed by hand. Running it again updates.
set -euo pipefail

venv=${1:?usage: tools/bootstrap.sh VENV}
cd "$(dirname "$0")/.."

# 3.11 comes first because it is the oldest supported version, where a too new function fails early.
# Python 3.13 comes last because plyvel has no wheels for it.
find_python() {
    local name
    for name in ${PYTHON:-python3.11 python3.12 python3 python3.13 python}; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "setup: no Python 3.11 or newer on PATH; install one, or name it: make setup PYTHON=/path/to/python3.11" >&2
    exit 1
}

if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "setup: $python cannot create virtual environments (no ensurepip); on Debian or Ubuntu: apt-get install python3-venv" >&2
        exit 1
    fi
    echo "setup: creating $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt)
echo "setup: installing the project, its extras and the tools (the first time takes a minute or two)"
"${pip[@]}" pip
"${pip[@]}" --build-constraint constraints.txt --group dev -e '.[all]'
"$venv/bin/python" tools/provide_java.py
