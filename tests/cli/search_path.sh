#!/bin/sh
# No built file lets the dynamic linker look in the current folder: a part of a search path that is empty or relative means
# that folder, and a library that lies among somebody's data would run as the user.
#   search_path.sh BUILD_FOLDER WORK_FOLDER
set -u
build=$1 work=$2
failed=0 files=0
command -v readelf > /dev/null || { echo "readelf is not installed"; exit 77; }

for file in "$build"/* "$build"/glibc-hwcaps/*/*; do
    [ -f "$file" ] && [ "$(head -c 4 "$file" | od -An -c | tr -d ' ')" = "177ELF" ] || continue
    path=$(readelf -d "$file" 2> /dev/null | sed -n 's/.*(R[A-Z]*PATH).*\[\(.*\)\]$/\1:/p')
    files=$((files + 1))
    while [ -n "$path" ]; do
        part=${path%%:*} path=${path#*:}
        case $part in
        '$ORIGIN'* | /*) ;;
        *) echo "$file: its search path has the part '$part', which means the current folder"; failed=1; break ;;
        esac
    done
done
[ $files -ge 3 ] || { echo "only $files programs and libraries in $build"; failed=1; }

# A library of that name in the current folder is not taken: it could not be loaded.
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
for name in $(ldd "$build/plimsoll" | sed -n 's/^[[:space:]]*\(lib[^ ]*\) =>.*/\1/p' | grep -v plimsoll); do
    echo "not a library" > "$name"
done
"$build/plimsoll" version > /dev/null || { echo "it takes a library of the current folder"; failed=1; }
if [ -e "$build/glibc-hwcaps/x86-64-v2/libplimsoll_kernels.so" ]; then
    LD_LIBRARY_PATH= PLIMSOLL_ISA=v2 "$build/plimsoll" version > /dev/null ||
        { echo "with PLIMSOLL_ISA and an empty LD_LIBRARY_PATH it takes a library of the current folder"; failed=1; }
fi
exit $failed
