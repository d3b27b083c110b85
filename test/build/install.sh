#!/bin/sh
# make install, then a tutorial built against what was installed, through pkg-config alone.
. "${0%/*}/common.sh"
configure_in install --prefix="$scratch/prefix"
make -s -j"$jobs"
make -s install
make -s installcheck
[ -s "$scratch/prefix/share/man/man3/RengaPipelineStep.3" ]
[ -s "$scratch/prefix/lib/librenga.a" ] && [ -s "$scratch/prefix/lib/librenga.so" ]
