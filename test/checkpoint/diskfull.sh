#!/bin/sh
# A full disk: an error on all ranks that names it, the checkpoint before stays, nothing else is left.
program=${top_builddir:-.}/test/checkpoint/faults
folder=$(mktemp -d) || exit 99
trap 'umount "$folder/disk" 2>/dev/null; rm -rf "$folder"' EXIT
mkdir "$folder/disk"
mount -t tmpfs -o size=16m tmpfs "$folder/disk" 2>/dev/null || {
  echo 'no right to mount a small disk'
  exit 77
}
run() { timeout 60 "${MPIEXEC:-mpiexec}" -n 3 "$program" "$@" >"$folder/out" 2>&1 </dev/null; }
fail() {
  echo "$1"
  cat "$folder/out"
  exit 1
}
run write "$folder/disk" -stages 3 -step 1 || fail 'the first does not fit'
dd if=/dev/zero of="$folder/disk/ballast" bs=1k >/dev/null 2>&1
rm -f "$folder/disk/ballast"
used=$(du -k "$folder/disk" | cut -f 1)
dd if=/dev/zero of="$folder/disk/ballast" bs=1k count=$((16384 - used - 3000)) 2>/dev/null
for manner in '-step 2' '-step 1000 -checkpoint_every 1000 -beside'; do
  run write "$folder/disk" -stages 3 $manner
  code=$?
  [ $code -ne 0 ] && [ $code -ne 124 ] || fail "exit code $code on a full disk"
  [ "$(grep -c 'No space left on device' "$folder/out")" -eq 1 ] || fail 'it is not said, once, why'
done
rm "$folder/disk/ballast"
[ "$(ls "$folder/disk")" = step_000000001.h5 ] || fail "left: $(ls -A "$folder/disk")"
run resume "$folder/disk" -stages 2 || fail 'the one before cannot be read'
grep -q 'step 1' "$folder/out" || fail 'the one before is not found'
