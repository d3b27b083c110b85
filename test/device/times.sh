#!/bin/sh
# Times by the device's clock: -log_trace has a row for each stream, whose bars are disjoint, in order, not
# before the host queued the work, and there for all of it; -log_view adds up the same; the bits, and the
# number of waits in a step, are those of a run without a log. On far, and on the emulated cuda.
. "${0%/*}/../app/common.sh"
train="train -graph $gpt,dropout=0.1 -data synthetic -data_samples 64 -batch_size 8 -microbatch_size 2 -seed 3
  -steps 3 -progress none -parameter_digest"

# logged RANKS ARGUMENT...: with and without a log; the trace is in trace.json.
logged() {
  accepts "$@" $train
  plain=$(digest)
  accepts "$@" $train -log_view -log_trace trace.json
  equal "$(digest)" "$plain" "the log changes the parameters: $*"
}

# rows FORWARDS: of each process: disjoint bars of streams, so many forwards, a backward after each, 3 updates
# of the device, each after its step's last backward. What the host did is bars of other rows.
rows() {
  awk -v forwards="$1" '
    function number(key,  at) { at = index($0, "\"" key "\":"); return substr($0, at + length(key) + 3) + 0 }
    function text(from,  rest) { rest = substr($0, index($0, from) + length(from)); return substr(rest, 1, index(rest, "\"") - 1) }
    function wrong(why) { print "line " NR ": " why ": " $0; bad = 1 }
    /"thread_name"/ { row[number("pid"), number("tid")] = text("\"args\":{\"name\":\"") }
    !/"ph":"X"/ { next }
    {
      p = number("pid"); track = row[p, number("tid")]; name = text("\"name\":\"")
      begin = number("ts"); end = begin + number("dur")
      if (first[p] == "" || begin < first[p]) first[p] = begin
      if (end > last[p]) last[p] = end
    }
    track == "host" {  # which of this name it is, and when it was queued
      queued[p, name, ++hosts[p, name]] = begin
      next
    }
    track == "communication" || track == "checkpoint" { next }
    {
      if (begin < ended[p, track] - 0.002) wrong("overlaps the bar before")
      ended[p, track] = end
      sum[p, track] += end - begin
      n = ++bars[p, track, name]
    }
    track == "compute" {
      if ((p, name, n) in queued && begin < queued[p, name, n] - 0.002) wrong("before it was queued")
      if (name ~ /^forward/) { seen[p]++; which = name; sub("forward", "backward", which); open[p, which]++ }
      if (name ~ /^backward/ && open[p, name]-- != 1) wrong("not after its forward")
      if (name ~ /^(forward|backward)/) busy[p] = 1
      if (name == "update" && !busy[p]) wrong("nothing before it")
      if (name == "update") { updates[p]++; busy[p] = 0 }
    }
    END {
      for (p in first) {
        if (seen[p] != forwards) { print p ": " seen[p] " forwards"; bad = 1 }
        if (updates[p] != 3) { print p ": " updates[p] " updates"; bad = 1 }
      }
      for (key in sum) {
        split(key, pair, SUBSEP)
        rows++
        if (!(sum[key] > 0 && sum[key] <= last[pair[1]] - first[pair[1]])) { print "row " pair[2] ": " sum[key]; bad = 1 }
      }
      print rows " rows"
      exit bad || !rows
    }' trace.json >said || { cat said >out; fail "the trace is wrong"; }
}

# has TRACK...: the trace has such rows.
has() {
  for track in "$@"; do
    grep -q "\"thread_name\",\"args\":{\"name\":\"$track" trace.json || fail "no row $track"
  done
}

# adds EVENT NAME: calls and seconds of the log are the bars of rank 0, which is alone.
adds() {
  sed -n "s/^$1  *//p" out | awk '{ print $1, $2 }' >log.txt
  awk -v name="\"name\":\"$2" '/"tid":0,/ { next } index($0, name) && /"ph":"X"/ {
      n++; sum += substr($0, index($0, "\"dur\":") + 6) }
    END { print n, sum * 1e-6 }' trace.json | paste -d" " log.txt - | awk '
    { d = $2 - $4; exit !($1 == $3 && d < 2e-4 && d > -2e-4) }' || fail "$1: $(cat log.txt) in the log"
}

logged 1 -device_type far
rows 12
has host inputs compute
for event in Forward Backward Accumulate Norm Update; do
  adds $event "$(echo $event | tr '[:upper:]' '[:lower:]')"
done
adds "Copy of inputs" inputs
logged 2 -device_type far -layout_pipeline 2 -device_far_seed 2
rows 12
has inputs compute "copies down" "copies up"
own env RENGA_OPTIONS=-log_view timeout -k 5 $limit "$mpiexec" -n 1 "$top_builddir/test/pipeline/far" </dev/null >out 2>&1 ||
  fail "test/pipeline/far with -log_view"
if [ -n "${CUDA_EMULATED:-}" ]; then
  on_cuda="-device_type cuda -device_cuda_module $top_builddir/test/cuda/renga_cudaemu.so -device_cuda_workspace 1"
  logged 1 $on_cuda
  rows 12
  EMU_DEVICES=2
  export EMU_DEVICES
  logged 2 $on_cuda -layout_pipeline 2 -transport_type nccl
  rows 12
  has "send to rank" "receive from rank"
  logged 2 $on_cuda -layout_pipeline 1 -layout_data 2 -transport_type nccl
  rows 6
  has "sum of gradients"
fi
finish
