#!/bin/sh
# The Python package under mypy --strict and ruff (pyproject.toml), in .venv-tools. Skipped where pip cannot fetch them.
set -eu
cd "$(dirname "$0")/.."
tools=.venv-tools/bin
if ! "$tools/mypy" --version > /dev/null 2>&1 || ! "$tools/ruff" --version > /dev/null 2>&1; then
    if ! python3 -m venv .venv-tools > /dev/null 2>&1 || ! .venv-tools/bin/pip install -q mypy==2.4.1 ruff==0.17.5 > /dev/null 2>&1; then
        echo "python: mypy and ruff cannot be installed, skipped"
        exit 0
    fi
fi
"$tools/ruff" check -q python tests/python
if .venv/bin/python -c 'import torch' > /dev/null 2>&1; then
    "$tools/mypy" --python-executable .venv/bin/python
else
    echo "python: PyTorch is not installed, mypy skipped"
fi
echo "python: mypy --strict and ruff find nothing"
