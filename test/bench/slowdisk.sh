#!/bin/sh
# Reading ahead from a slow disk: a set of pictures of 150 KB on a file system whose device gives 1.2 times the bytes a second
# that training needs, cold, beside the same set in memory, in turn. Prints the mean seconds of a step of each, and the median
# over the rounds of their ratio.
#   sudo env OMP_NUM_THREADS=1 test/bench/slowdisk.sh build/renga [ROUNDS [STEPS]]
# Environment: NETWORK, BATCH (32), FASTER (1.2). The device is held back by blkio of cgroups, version 1 or 2.
set -eu
[ "$(id -u)" -eq 0 ] || { echo "a device is held back by root"; exit 1; }
renga=$(realpath "$1") rounds=${2:-5} steps=${3:-60}
batch=${BATCH:-32} faster=${FASTER:-1.2} network=${NETWORK:-mlp:sizes=150528-256-10}
here=$(cd "${0%/*}" && pwd)
work=$(mktemp -d) group=
loop=
down() {
  cd /
  umount "$work/disk" 2>/dev/null || :
  [ -z "$loop" ] || losetup -d "$loop"
  [ -z "$group" ] || rmdir "$group" 2>/dev/null || :
  rm -rf "$work"
}
trap down EXIT
cd "$work"
mkdir disk
python3 "$here/images.py" . $((batch * steps)) 150528 10
"$renga" data npy x.npy labels.npy set.h5 >data.log
rm x.npy
truncate -s $((batch * steps * 150528 / 1048576 + 64))M image
mkfs.ext4 -q image
loop=$(losetup -f --show image)
mount "$loop" disk
cp set.h5 disk/
rm set.h5
number=$(cat "/sys/block/${loop#/dev/}/dev")
if [ -d /sys/fs/cgroup/blkio ]; then
  group=/sys/fs/cgroup/blkio/renga-slowdisk limit=blkio.throttle.read_bps_device
else
  group=/sys/fs/cgroup/renga-slowdisk limit=io.max
fi
mkdir -p "$group"
hold() { # bytes a second; 0: as fast as it is
  if [ "$limit" = io.max ]; then [ "$1" = 0 ] && set -- max; echo "$number rbps=$1" >"$group/$limit"
  else echo "$number $1" >"$group/$limit"; fi
}
train() {
  rm -f steps.csv
  timeout 600 sh -c "echo \$\$ >$group/cgroup.procs; exec \"\$@\"" run "$renga" train -graph "$network" -data disk/set.h5 \
    -batch_size "$batch" -microbatch_size "$batch" -layout_pipeline 1 -layout_data 1 -steps "$steps" -progress none \
    -optimizer_type sgd -optimizer_learning_rate 1e-6 -monitor csv:steps.csv >train.log 2>&1 || { cat train.log; exit 1; }
  awk -F, 'NR > 6 { sum += $6; n++ } END { print sum / n }' steps.csv
}
cold() { umount disk; mount "$loop" disk; }
warm() { hold 0; cat disk/set.h5 >/dev/null; }

warm
train >first
for round in $(seq "$rounds"); do
  warm
  memory=$(train)
  rate=$(awk "BEGIN { printf \"%d\", $faster * $batch * 150528 / $memory }")
  cold
  hold "$rate"
  disk=$(train)
  echo "$disk $memory" >>ratios
  echo "round $round: $memory s a step from memory, $disk s from a disk of $((rate / 1000000)) MB/s; load $(cut -d' ' -f1 /proc/loadavg)"
done
echo "ratio $(awk '{ print $1 / $2 }' ratios | sort -g | awk '{ t[NR] = $1 } END { print (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2 }') \
(median of $rounds rounds)"
