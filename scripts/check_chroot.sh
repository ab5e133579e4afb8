#!/bin/sh
# check_chroot.sh [TARGET...] -- runs make TARGET (demo, by default) in a fresh system: a minimal Debian with make and
# nothing else, into which the files of the last commit are copied. What building, the demo or the tests need and do not
# install themselves shows here. Needs root, debootstrap (installed if missing) and the network.
#   CHROOT   where to make it; default: a new folder below /tmp, removed at the end
#   SUITE    the release; default: that of this machine
#   MIRROR   where packages come from; default: deb.debian.org
set -eu
cd "$(dirname "$0")/.."
targets=${*:-demo}
[ "$(id -u)" = 0 ] || { echo "check_chroot: needs root" >&2; exit 1; }
command -v debootstrap > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap > /dev/null; }
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
if [ -z "${CHROOT_INNER:-}" ]; then # in a mount namespace of its own: no mount is left behind, whatever happens
    root=${CHROOT:-$(mktemp -d /tmp/plimsoll-chroot.XXXXXX)}
    code=0
    CHROOT=$root CHROOT_INNER=1 unshare --mount sh "scripts/$(basename "$0")" $targets || code=$?
    rm -rf --one-file-system "$root"
    exit $code
fi
root=$CHROOT
mount --make-rprivate /
echo "check_chroot: $suite in $root"
debootstrap --variant=minbase --include=make,ca-certificates "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}" > "$root.log" 2>&1 ||
    { tail -5 "$root.log" >&2; exit 1; }
rm -f "$root.log"
cp /etc/resolv.conf "$root/etc/resolv.conf"
for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*proxy*; do # a proxy, where this machine needs one
    [ ! -f "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"
done
mkdir "$root/plimsoll"
git archive HEAD | tar -x -C "$root/plimsoll"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for target in $targets; do
    echo "check_chroot: make $target"
    start=$(date +%s)
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb \
        ${http_proxy:+http_proxy=$http_proxy} ${https_proxy:+https_proxy=$https_proxy} \
        chroot "$root" make -C /plimsoll "$target" || { echo "check_chroot: make $target failed" >&2; exit 1; }
    echo "check_chroot: make $target done in $(($(date +%s) - start)) s"
done
