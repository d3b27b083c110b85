#!/bin/sh
# usage: installcheck.sh TUTORIAL.c LIBDIR BINDIR: build a tutorial against the installed library and run it.
set -eu
source=$1
libdir=$2
bindir=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PKG_CONFIG_PATH=$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
$CC -std=c11 -o "$folder/tutorial" "$source" $($PKG_CONFIG --cflags --libs renga) -Wl,-rpath,"$libdir" -lm
OMP_NUM_THREADS=1 timeout 100 "$MPIEXEC" -n 2 "$folder/tutorial" -partition_stages 2
"$bindir/renga" -version
echo "installcheck: built through pkg-config and ran"
