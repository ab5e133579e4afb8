#!/bin/sh
# Installs system packages that some tests need: chromium opens the HTML pages, CBC proves optimal plans of small
# graphs, strace makes system calls fail, tmux shows progress as a terminal does, mandoc, zsh and fish read the manual
# and the completion. Without them these tests are skipped with a message. Does nothing if they are there.
set -eu
missing=""
command -v chromium > /dev/null 2>&1 || missing="$missing chromium"
for tool in tmux mandoc zsh fish; do command -v $tool > /dev/null 2>&1 || missing="$missing $tool"; done
ls /usr/lib/*/libCbc.so* > /dev/null 2>&1 || missing="$missing coinor-libcbc3"
command -v strace > /dev/null 2>&1 || missing="$missing strace"
[ -z "$missing" ] && exit 0
[ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1 || { echo "plimsoll: not installed, and their tests skipped:$missing"; exit 0; }
echo "plimsoll: installing$missing"
apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > /dev/null 2>&1 ||
    echo "plimsoll: could not install$missing; their tests are skipped"
