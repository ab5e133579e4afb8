#!/bin/sh
# Installs what building needs, with the package manager, and says what it does. Nothing is done when
# all of it is there. Optional parts (oneDNN) are asked for too, but the build works without them.
set -eu
missing=""
need() { command -v "$1" > /dev/null 2>&1 || missing="$missing $2"; }
need cc gcc
need cmake cmake
need ninja ninja-build
need python3 python3
[ -f /usr/include/png.h ] || missing="$missing libpng-dev"
[ -f /usr/include/dnnl.h ] || [ -n "${PLIMSOLL_NO_DNNL:-}" ] || missing="$missing libdnnl-dev"
[ -f /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -z "$missing" ] && exit 0

echo "plimsoll: installing$missing"
if ! command -v apt-get > /dev/null 2>&1; then
    echo "plimsoll: this script knows apt-get only; please install:$missing (libdnnl is optional)" >&2
    case "$missing" in *gcc*|*cmake*|*ninja*|*python3*) exit 1 ;; esac
    exit 0
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
log=$(mktemp)
if ! { $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing; } > "$log" 2>&1; then
    tail -5 "$log" >&2
    echo "plimsoll: could not install$missing; install them by hand and run make again" >&2
    case "$missing" in *gcc*|*cmake*|*ninja*|*python3*) exit 1 ;; esac
fi
rm -f "$log"
