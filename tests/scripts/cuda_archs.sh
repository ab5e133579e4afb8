#!/bin/sh
# cmake/cuda_archs.cmake, with programs that answer as nvidia-smi does on several machines.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf 'cmake_minimum_required(VERSION 3.22)\ninclude(cmake/cuda_archs.cmake)\nmessage("archs=${PLIMSOLL_CUDA_ARCHS}")\n' > "$folder/ask.cmake"
failed=0
expect() {                       # archs, what nvidia-smi does, options
    want=$1
    printf '#!/bin/sh\n%s\n' "$2" > "$folder/nvidia-smi"
    chmod +x "$folder/nvidia-smi"
    shift 2
    got=$(PATH="$folder:$PATH" cmake -DPLIMSOLL_CUDA_ARCHS=AUTO "$@" -P "$folder/ask.cmake" 2>&1 | sed -n 's/^archs=//p')
    [ "$got" = "$want" ] || { echo "cuda_archs: '$got' for $(tail -1 "$folder/nvidia-smi") $*, not '$want'"; failed=1; }
}
expect 90a        'echo 9.0'
expect 80         'echo 8.0'
expect 89         'echo 8.9'
expect 120        'echo 12.0'
expect '90a;86'   'printf "9.0\n8.6\n9.0\n"'
expect 90a        'echo 7.5'
expect '86'       'printf "7.5\n8.6\n"'
expect 90a        'echo "NVIDIA-SMI has failed 8.6"; exit 9'
expect 90a        'echo "No devices were found"; exit 6'
expect '80;90a'   'echo 8.6' -DPLIMSOLL_RELEASE=ON
expect 86         'echo 9.0' -DPLIMSOLL_CUDA_ARCHS=86
expect '80;90a'   'echo 8.6' '-DPLIMSOLL_CUDA_ARCHS=80;90a'
[ $failed = 1 ] || echo "cuda_archs: as expected on 12 machines"
exit $failed
