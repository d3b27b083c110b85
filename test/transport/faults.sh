#!/bin/sh
# The failures of test/faults hold where tensors travel by staging memory, on both kinds of device.
program=$(cd "$top_builddir" && pwd)/test/faults/each
srcdir=$(cd "${srcdir:-.}" && pwd)
top_srcdir=$(cd "${top_srcdir:-.}" && pwd)
export srcdir top_srcdir
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 99
for options in "-comm_transport staged" "-device_type far"; do
  RENGA_FAULT_TRIES=${RENGA_FAULT_TRIES:-8} RENGA_OPTIONS=$options timeout -k 5 250 \
    "${MPIEXEC:-mpiexec}" -n 2 "$program" </dev/null >out 2>&1 || {
    echo "with $options:"
    tail -n 40 out
    exit 1
  }
done
