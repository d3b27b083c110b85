#!/bin/sh
# A network is never whole in a process: beginning by seed and from a folder, checkpoints, going on and exporting take each of
# four ranks its share, which the forecast says, and a constant.
# TEST ranks: 4
. "${0%/*}/common.sh"
[ -z "${SANITIZERS:-}" ] || { echo "sanitizers take memory of their own"; exit 77; }
[ -x /usr/bin/time ] && [ -e "$top_builddir/.libs/renga" ] || { echo "no time, or no shared library"; exit 77; }
constant=70 # MiB of the program, its libraries, MPI and HDF5
export LD_LIBRARY_PATH="$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# peak RANKS ARGUMENT...: the most resident memory of a rank, and the largest forecast, in MiB.
peak() {
  ranks=$1
  shift
  latest="renga $*"
  timeout -k 5 $limit "$mpiexec" -n "$ranks" sh -c '/usr/bin/time -f %M -o "peak.$$" "$@"' sh "$top_builddir/.libs/renga" "$@" >out 2>&1 ||
    fail "exit code $?: $latest"
  most=$(cat peak.* | sort -n | tail -n 1)
  most=$((most / 1024))
  rm -f peak.*
}
within() {
  [ "$most" -le "$1" ] || fail "a rank had $most MiB at once, and $1 are its share and a constant: $latest"
}
# 132 MiB of parameters, twice that with their gradients.
network="-graph mlp:sizes=2048-2880-2880-2880-2880-1000"
run="$network -data synthetic -data_samples 16 -batch_size 4 -microbatch_size 1 -graph_lanes 1 -optimizer_type sgd -progress none -layout_pipeline 4"
peak 4 train $run -steps 1
share=$(awk '/stage [0-9]+, replica/ { if ($7 == "MiB" && $6 > most) most = $6 } END { print int(most) }' out)
[ "$share" -ge 60 ] && [ "$share" -le 180 ] || fail "a forecast of $share MiB"
within $((share + constant))
peak 4 train $run -steps 1 -checkpoint_dir kept
within $((share + constant))
peak 4 train $run -steps 2 -checkpoint_dir kept -resume
within $((share + constant))
peak 1 export kept folder
within $constant
peak 4 train $run -steps 1 -initial folder
within $((share + constant))
peak 1 plan $network -batch_size 4 -machine_file v100 -machine_nodes 1
within 130
exit $((failures > 0))
