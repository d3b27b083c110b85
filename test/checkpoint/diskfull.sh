#!/bin/sh
# A full disk: an error on all ranks that names it, the checkpoint before stays, nothing else is left.
. "${0%/*}/../app/common.sh"
program=$top_builddir/test/checkpoint/faults
trap 'umount "$scratch/disk" 2>/dev/null; rm -rf "$scratch"' EXIT
mkdir disk
mount -t tmpfs -o size=16m tmpfs disk 2>/dev/null || {
  echo 'no right to mount a small disk'
  exit 77
}
run() {
  latest="$*"
  timeout -k 5 $limit "$mpiexec" -n 3 "$program" "$@" >out 2>&1 </dev/null
}
run write disk -stages 3 -step 1 || fail 'the first does not fit'
dd if=/dev/zero of=disk/ballast bs=1k >/dev/null 2>&1
rm -f disk/ballast
used=$(du -k disk | cut -f 1)
dd if=/dev/zero of=disk/ballast bs=1k count=$((16384 - used - 3000)) 2>/dev/null
for manner in '-step 2' '-step 1000 -checkpoint_every 1000 -beside'; do
  run write disk -stages 3 $manner
  code=$?
  is_error $code || fail "exit code $code on a full disk"
  [ "$(grep -c 'No space left on device' out)" -eq 1 ] || fail 'it is not said, once, why'
done
rm disk/ballast
[ "$(ls disk)" = step_000000001.h5 ] || fail "left: $(ls -A disk)"
run resume disk -stages 2 || fail 'the one before cannot be read'
says 'step 1'
finish
