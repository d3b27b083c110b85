#!/bin/sh
# The failures of test/faults hold where tensors travel by staging memory, on both kinds of device.
. "${0%/*}/../app/common.sh"
for options in "-transport_type staged" "-device_type far"; do
  own env RENGA_FAULT_TRIES="${RENGA_FAULT_TRIES:-8}" RENGA_OPTIONS="$options" timeout -k 5 $((2 * limit)) \
    "$mpiexec" -n 2 "$top_builddir/test/faults/each" </dev/null >out 2>&1 || fail "with $options"
done
finish
