#!/bin/sh
# Prints the path of a Python that has TensorBoard, whose reader a test gives our event files: in .venv-tensorboard.
# PLIMSOLL_TENSORBOARD names another. Installs it where it is missing.
set -eu
cd "$(dirname "$0")/.."
python=${PLIMSOLL_TENSORBOARD:-.venv-tensorboard/bin/python}
if ! "$python" -c 'import tensorboard' > /dev/null 2>&1; then
    echo "plimsoll: installing TensorBoard into .venv-tensorboard" >&2
    python3 -m venv .venv-tensorboard
    python=.venv-tensorboard/bin/python
    "$python" -m pip install -q --disable-pip-version-check tensorboard setuptools\<81 >&2
fi
echo "$python"
