#!/usr/bin/env bash
# Creates the virtual environment $1 with the project, its extras $4 (all of them) and the dependency
# group $2 (the tools), at the versions that the file $3 pins.
# Needs Python 3.11 or newer with `venv`, and nothing else installed by hand. Running it again updates.
set -euo pipefail

venv=${1:?usage: tools/bootstrap.sh VENV [GROUP] [CONSTRAINTS] [EXTRAS]}
group=${2:-dev}
constraints=${3:-constraints.txt}
extras=${4:-all}
cd "$(dirname "$0")/.."

if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(tools/find_python.sh)
    echo "setup: creating $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

# To compile all of 1.4 GB takes longer than to install it, and most of it is never imported: Python
# compiles what is.
pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-compile -c "$constraints")
echo "setup: installing the project, its extras and the group $group (the first time takes a minute or two)"
"${pip[@]}" pip
"${pip[@]}" --build-constraint "$constraints" --group "$group" -e ".[$extras]"
"$venv/bin/python" tools/provide_java.py
