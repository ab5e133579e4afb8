#!/bin/sh
# Prints the path of clang-format 14, which .clang-format is written for, and installs it where it is missing: with
# the package manager as root, else from PyPI into .venv-format. Fails if neither works.
set -eu
cd "$(dirname "$0")/.."
is14() { "$1" --version 2> /dev/null | grep -q 'version 14\.'; }
find14() {
    for program in ${CLANG_FORMAT:-} clang-format-14 clang-format .venv-format/bin/clang-format; do
        if is14 "$program"; then
            command -v "$program"
            exit 0
        fi
    done
}
find14
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    echo "plimsoll: installing clang-format-14" >&2
    apt-get install -y -qq --no-install-recommends clang-format-14 > /dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends clang-format-14; } > /dev/null 2>&1 || true
    find14
fi
echo "plimsoll: fetching clang-format 14.0.6 into .venv-format" >&2
python3 -m venv .venv-format > /dev/null 2>&1 && .venv-format/bin/pip install -q clang-format==14.0.6 > /dev/null 2>&1 || true
find14
echo "plimsoll: could not install clang-format 14" >&2
exit 1
