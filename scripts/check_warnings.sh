#!/bin/sh
# No warning under -Wall -Wextra -Wpedantic -Wconversion -Wshadow from clang, whose warnings do not depend on optimising, so
# that files are read and checked but not compiled. check_sanitizers.sh holds gcc to the same.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang-14 > /dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    echo "plimsoll: installing clang-14 libomp-14-dev"
    apt-get install -y -qq clang-14 libomp-14-dev > /dev/null 2>&1 || true
fi
if ! command -v clang-14 > /dev/null 2>&1; then
    echo "warnings: clang-14 is not installed, skipped"
    exit 0
fi
cmake -S . -B build-warn -G Ninja -DCMAKE_C_COMPILER=clang-14 -DPLIMSOLL_WERROR=ON -DPLIMSOLL_ISAS=v4 -DPLIMSOLL_CUDA=OFF \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON > build-warn.log 2>&1 || { cat build-warn.log; exit 1; }
rm -f build-warn.log
ninja -C build-warn generated_sources > build-warn/log 2>&1 || { cat build-warn/log; exit 1; }
python3 - build-warn/compile_commands.json > build-warn/commands <<'END'
import json, re, sys
for entry in json.load(open(sys.argv[1])):
    command = re.sub(r" -o \S+ -c ", " -fsyntax-only ", entry["command"])
    sys.exit(f"no -o and -c in: {command}") if command == entry["command"] else print(command)
END
[ "$(wc -l < build-warn/commands)" -gt 500 ] || { echo "warnings: only $(wc -l < build-warn/commands) files were found"; exit 1; }
cd build-warn
tr '\n' '\0' < commands | xargs -0 -n 1 -P "$(nproc)" sh -c 'eval "$0"' > log 2>&1 || { cat log; exit 1; }
echo "warnings: none with clang-14 in $(wc -l < commands) files"
