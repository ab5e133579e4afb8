#!/bin/sh
# Outside judges that are programs of the system: chromium looks at the HTML report, CBC proves plans of small
# graphs. Tests that ask them are skipped with a word where they are not; nothing is done when they are there.
set -eu
missing=""
command -v chromium > /dev/null 2>&1 || missing="$missing chromium"
ls /usr/lib/*/libCbc.so* > /dev/null 2>&1 || missing="$missing coinor-libcbc3"
[ -z "$missing" ] && exit 0
[ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1 || { echo "plimsoll: not installed, and their tests skipped:$missing"; exit 0; }
echo "plimsoll: installing$missing"
apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > /dev/null 2>&1 ||
    echo "plimsoll: could not install$missing; their tests are skipped"
