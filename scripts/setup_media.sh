#!/bin/sh
# Installs what the plugins for video and audio are built from (FFmpeg's libav, libsndfile, libsamplerate) and the program
# ffmpeg, with which their tests make files. All of it is optional: without it, the program reads images, WAV and arrays.
# Does nothing if it is there. Then `make` builds the plugins.
set -eu
missing=""
header() { find /usr/include /usr/local/include -path "*/$1" 2> /dev/null | grep -q . || missing="$missing $2"; }
header libavformat/avformat.h libavformat-dev
header libavcodec/avcodec.h libavcodec-dev
header libswscale/swscale.h libswscale-dev
header sndfile.h libsndfile1-dev
header samplerate.h libsamplerate0-dev
command -v ffmpeg > /dev/null 2>&1 || missing="$missing ffmpeg"
[ -z "$missing" ] && exit 0
if ! command -v apt-get > /dev/null 2>&1; then
    echo "plimsoll: this script knows apt-get only; video and audio need:$missing"
    exit 0
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
echo "plimsoll: installing$missing"
{ $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing; } > /dev/null 2>&1 ||
    echo "plimsoll: could not install$missing; video and audio files are not read then"
