#!/bin/sh
# The installed header and library serve a program that knows nothing else of this tree, in C and in C++.
#   installed.sh BUILD_FOLDER PREFIX CC
set -u
build=$1 prefix=$2 cc=$3
here=$(cd "$(dirname "$0")" && pwd)/installed
failed=0
rm -rf "$prefix"
cmake --install "$build" --prefix "$prefix" > /dev/null || exit 1

if command -v pkg-config > /dev/null; then
    flags=$(PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pkg-config --cflags --libs plimsoll) || exit 1
else
    flags="-I$prefix/include -L$prefix/lib -lplimsoll"
fi

# answers PROGRAM: the example's figures
answers() {
    said=$(LD_LIBRARY_PATH="$prefix/lib" "$prefix/$1" | head -1)
    [ "$said" = "$expected" ] || { echo "$1 says '$said', not '$expected'"; failed=1; }
}
expected='356 MiB, 24 runs of 17 nodes, cost 156 of 121'
"$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror "$here/example.c" -o "$prefix/example" $flags || exit 1
answers example
"$cc" -std=c17 "$here/names.c" -o "$prefix/names" $flags || exit 1
LD_LIBRARY_PATH="$prefix/lib" "$prefix/names" || { echo "a program's own names are taken for the library's"; failed=1; }
if command -v c++ > /dev/null; then
    c++ -x c++ -Wall -Werror "$here/example.c" -x none -o "$prefix/example++" $flags || exit 1
    answers example++
fi
shown=$(nm -D --defined-only "$prefix/lib/libplimsoll.so" | awk '{print $3}' | grep -v '^plimsoll_')
[ -z "$shown" ] || { echo "the library shows names of its insides: $shown"; failed=1; }
exit $failed
