#!/bin/sh
# The installed tree works on its own, from any folder: kernels, plugins, recipes and profiles are found.
#   installed.sh BUILD_FOLDER PREFIX
set -u
build=$1 prefix=$2
failed=0
rm -rf "$prefix"
cmake --install "$build" --prefix "$prefix" > /dev/null || exit 1
cd / || exit 1

# finds 'text' arguments...
finds() {
    text=$1
    shift
    "$prefix/bin/plimsoll" "$@" 2>&1 | grep -qF -- "$text" || { echo "plimsoll $*: nowhere says '$text'"; failed=1; }
}
finds "511,011 parameters" explain unet-small --effort -1
finds "on h200" explain unet-small --effort -1 --device h200
[ ! -e "$prefix/lib/plimsoll/libplimsoll_dnnl.so" ] || finds "onednn" explain unet-small --effort -1 --backend onednn
ldd "$prefix/bin/plimsoll" | grep -q "plimsoll_kernels.so => $prefix/" || { echo "it runs with kernels from elsewhere"; failed=1; }

# Only the plugin for video, which no release and no wheel has (cmake/media.cmake), links libav; and no file is libav.
libav='lib(avcodec|avformat|avutil|avfilter|avdevice|swscale|swresample)\.so'
[ -z "$(find "$prefix" -type f | grep -E "$libav")" ] || { echo "libav itself is installed"; failed=1; }
linked=$(find "$prefix" -type f ! -name libplimsoll_video.so -exec sh -c 'readelf -d "$2" 2> /dev/null | grep -qE "NEEDED.*$1" && echo "$2"' - "$libav" {} \;)
[ -z "$linked" ] || { echo "these link libav:" $linked; failed=1; }
exit $failed
