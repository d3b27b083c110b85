#!/bin/sh
# Parts of programs as CUDA graphs, on the emulated runtime: the same bits with and without, on all layouts,
# with recomputation, chunks, short batches, evaluations between steps, a resumption, poison, 16 bits and a
# scale of the loss; and the graphs are used as often as they can be.
. "${0%/*}/../app/common.sh"
if [ -z "${CUDA_EMULATED:-}" ]; then
  echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"
  exit 77
fi
EMU_DEVICES=4
export EMU_DEVICES EMU_SEED EMU_MODE EMU_ORDER
base="train -data synthetic -data_samples 64 -batch_size 8 -microbatch_size 2 -seed 3 -progress none -parameter_digest
  -steps 4 -device_type cuda -device_cuda_module $top_builddir/test/cuda/renga_cudaemu.so -device_cuda_workspace 1"
dropout="-graph gpt:layers=2,hidden=16,heads=2,sequence=9,vocabulary=40,dropout=0.1 -optimizer_type adamw"

# replays RANKS: how often graphs were launched, on the rank that launched most.
replays() {
  awk '$1 == "Replay" { print $2 }' out
}

# alike RANKS ARGUMENT...: both ways; graphs are in use.
alike() {
  ranks=$1
  shift
  accepts "$ranks" $base "$@" -device_graphs off -log_view
  digest >off.txt
  [ "$(replays)" = 0 ] || [ -z "$(replays)" ] || fail "graphs are used where they are off"
  accepts "$ranks" $base "$@" -log_view
  equal "$(digest)" "$(cat off.txt)" "other parameters with graphs: $*"
  [ "$(replays)" -gt 0 ] || fail "no graph is used: $*"
}

refuses 1 "is for -device_type cuda, but the type is cpu" $base $dropout -device_type cpu -device_graphs on

# One stage, 4 micro-batches a step, one in flight: forward of a slot, and backwards that write one of three
# buffers of gradients. The first run of each is not a graph.
alike 1 $dropout
cp off.txt one.txt
[ "$(replays)" -ge 24 ] || fail "only $(replays) launches of graphs, of 32 parts"
for EMU_SEED in 2 3; do
  alike 1 $dropout
done
EMU_SEED=1
same() {
  alike "$@"
  equal_files one.txt off.txt "another digest than on one rank: $*"
}
same 2 $dropout -layout_pipeline 2 -transport_type nccl
same 2 $dropout -layout_pipeline 2 -transport_type staged
same 2 $dropout -partition_type even -layout_pipeline 2 -layout_chunks 2
same 2 $dropout -layout_pipeline 2 -schedule_type gpipe -device_poison
EMU_MODE=sync EMU_ORDER=check
same 1 $dropout
EMU_MODE= EMU_ORDER=

# Updates wait behind a gate of the device, not for the host; those of several ranks whose messages go by the
# host wait for it. One parameter has several pieces, which two replicas share under ZeRO.
waits() { # ranks
  for rank in $(seq 0 $(($1 - 1))); do
    grep -a "(rank $rank)" out | awk '/queued: kernel SquaresKernel/ { w = 0 } /the host (waits|asks)/ { w = 1 }
      /queued: kernel AdamKernel/ { n += w; w = 0; k++ } END { print n + 0, k + 0 }'
  done | awk '{ n += $1; k += $2 } END { print k ? n : "no update" }'
}
gated() { # ranks, waits of all, argument...
  ranks=$1
  all=$2
  shift 2
  EMU_TRACE=1 && export EMU_TRACE
  accepts "$ranks" $base $wide -optimizer_clip_norm 0.1 "$@"
  unset EMU_TRACE
  equal "$(waits "$ranks")" "$all" "other waits between norms and updates: $*"
  equal "$(digest)" "$(cat one.txt)" "other parameters behind a gate: $*"
  accepts "$ranks" $base $wide -optimizer_learning_rate 1e30 -pipeline_on_nonfinite skip "$@"
  says "step 1 is not finite"
  equal "$(digest)" "$(cat skips.txt)" "a step that is not finite changes something behind a gate: $*"
  accepts "$ranks" $base $wide -precision fp16 -pipeline_loss_scale 16777216 "$@"
  equal "$(digest)" "$(cat scaled.txt)" "other parameters behind a gate in fp16: $*"
}
wide="-graph gpt:layers=2,hidden=16,heads=2,sequence=9,vocabulary=1100,dropout=0.1 -optimizer_type adamw
  -graph_lanes 2 -partition_type even"
cp one.txt kept.txt
accepts 1 $base $wide -optimizer_clip_norm 0.1
digest >one.txt
accepts 1 $base $wide -optimizer_learning_rate 1e30 -pipeline_on_nonfinite skip
digest >skips.txt
accepts 1 $base $wide -precision fp16 -pipeline_loss_scale 16777216
digest >scaled.txt
gated 1 0
gated 2 4 -layout_pipeline 2 -transport_type staged
gated 2 0 -layout_pipeline 2 -transport_type nccl
gated 2 0 -layout_pipeline 1 -layout_data 2 -layout_zero 1 -pipeline_buckets 1 -transport_type nccl
gated 4 0 -layout_pipeline 1 -layout_data 2 -layout_zero 2 -layout_tensor 2 -transport_type nccl
gated 4 0 -layout_pipeline 2 -layout_data 2 -transport_type nccl
cp kept.txt one.txt

# A backward is several graphs: the sum of a bucket's gradients goes on beside those that follow. It is queued on
# another stream, behind no event that is behind the last graph; the host waits for nothing that is.
hidden() { # rank: of the last step its additions to sums, or NCCL's sums, those beside the backward first
  grep -a "(rank $1)" out | awk 'function stream() { sub(/.* on stream /, ""); return $1 }
    function later(s, graph) { if (graph > behind[s] + 0) behind[s] = graph }
    /queued: a graph/ { behind[main = stream()] = ++graphs }
    /queued: cudaEventRecord/ { e = $5; event[e] = behind[stream()] }
    /queued: cudaStreamWaitEvent/ { e = $5; later(stream(), event[e]) }
    /the host waits for event/ { later("host", event[$6]) }
    /the host waits for stream/ { later("host", behind[$6]) }
    /queued: (kernel AddKernel|ncclAllReduce) / { if ((s = stream()) != main) { later(s, behind["host"]); sum[n++] = behind[s] } }
    /queued: kernel SquaresKernel/ { beside = 0; for (i = 0; i < n; i++) beside += sum[i] < graphs; all = n; n = 0 }
    END { print beside + 0 " of " all + 0 }'
}
# Of 2 micro-batches the last backward alone is cut, by 3 sums.
graphs() { # rank: of the last step
  grep -a "(rank $1)" out | awk '/queued: a graph/ { n++ } /queued: kernel SquaresKernel/ { all = n; n = 0 } END { print all }'
}
beside() { # ranks, "additions beside the backward of all", argument...
  ranks=$1
  additions=$2
  shift 2
  EMU_TRACE=1 && export EMU_TRACE
  accepts "$ranks" $base $dropout -layout_pipeline 1 -layout_data 2 -pipeline_buckets 3 "$@"
  unset EMU_TRACE
  equal "$(digest)" "$(cat one.txt)" "other parameters with sums beside graphs: $*"
  for rank in $(seq 0 $((ranks - 1))); do
    equal "$(hidden "$rank")" "$additions" "other sums are beside the backward of rank $rank: $*"
    equal "$(graphs "$rank")" ${cut:-8} "other graphs in a step of rank $rank: $*"
  done
}
beside 2 "2 of 3" -transport_type staged
beside 2 "2 of 3" -transport_type nccl
# NCCL's own sums, which wait for the end of the backward where nothing shall go on beside it.
unordered="$dropout -layout_pipeline 1 -layout_data 2 -pipeline_reduction unordered -pipeline_buckets 3"
accepts 2 $base $unordered -transport_type staged
digest >one.txt
beside 2 "2 of 3" -transport_type nccl -pipeline_reduction unordered
cut=6
beside 2 "0 of 3" -transport_type nccl -pipeline_reduction unordered -pipeline_overlap off
cut=
(EMU_QUEUES=9 EMU_CONNECT=late && export EMU_QUEUES EMU_CONNECT && same 2 $unordered -transport_type nccl && exit $failures) ||
  failures=$((failures + 1))
cp kept.txt one.txt

# Recomputation, from a plan in which it is written.
accepts 2 $base $dropout -layout_pipeline 2 -steps 1 -plan_save plan.txt
sed 's/saved keep/saved recompute/' plan.txt >again.txt
cmp -s plan.txt again.txt && fail "the plan has no line to change"
same 2 $dropout -plan_load again.txt

# Shares of gradients and of parameters, and tensor- and context-parallel ranks: what lies between their messages is recorded.
for transport in staged nccl; do
  same 2 $dropout -layout_pipeline 1 -layout_data 2 -pipeline_buckets 3 -layout_zero 2 -transport_type $transport
  same 3 $dropout -layout_pipeline 1 -layout_data 3 -pipeline_buckets 3 -layout_zero 3 -transport_type $transport
done
alike 1 $dropout -graph_lanes 2
cp off.txt one.txt
for transport in staged nccl; do
  same 2 $dropout -graph_lanes 2 -layout_tensor 2 -layout_pipeline 1 -transport_type $transport
  same 4 $dropout -graph_lanes 2 -layout_tensor 2 -layout_pipeline 2 -transport_type $transport
done
alike 1 $dropout -graph_lanes 2 -graph_token_lanes 2
cp off.txt one.txt
for transport in staged nccl; do
  same 4 $dropout -graph_lanes 2 -graph_token_lanes 2 -layout_tensor 2 -layout_context 2 -layout_pipeline 1 -transport_type $transport
done

# A last batch of 3 samples, validations in between, and a resumption on another layout.
short="$dropout -data_samples 43 -data_validation 0.2 -eval_every 2 -steps 6"
alike 1 $short
cp off.txt one.txt
accepts 2 $base $short -steps 3 -layout_pipeline 2 -checkpoint_dir c
accepts 1 $base $short -steps 6 -resume -checkpoint_dir c
equal "$(digest)" "$(cat one.txt)" "another digest after a resumption"

# Running statistics; 16 bits; a scale of the loss that changes.
alike 1 -graph resnet:depth=18,width=0.0625,image=16,classes=5 -microbatch_size 4 -optimizer_learning_rate 0.00001
alike 1 $dropout -precision bf16
alike 1 $dropout -precision fp16 -pipeline_loss_scale 16777216
alike 2 $dropout -precision fp16 -layout_pipeline 2

# CUDA refuses to record, at once, at a call in a graph, or once some are in use: a warning, and the same bits.
export EMU_FAIL
accepts 1 $base $dropout -device_graphs off
digest >off.txt
for EMU_FAIL in begin:1 begin:3 capture:1 capture:7 capture:60; do
  accepts 1 $base $dropout
  says "GPU 0 records no graphs, and runs without (-device_graphs off): "
  lacks "error: "
  equal "$(digest)" "$(cat off.txt)" "other parameters where CUDA refuses: $EMU_FAIL"
done
EMU_FAIL=capture:7@1
accepts 2 $base $dropout -layout_pipeline 2
says "GPU 1 records no graphs"
equal "$(digest)" "$(cat off.txt)" "other parameters where CUDA refuses one rank"
# Replicas whose devices differ in it begin their sums in one order still.
for transport in staged nccl; do
  accepts 2 $base $dropout -layout_pipeline 1 -layout_data 2 -pipeline_buckets 3 -transport_type $transport
  says "GPU 1 records no graphs"
  equal "$(digest)" "$(cat off.txt)" "other parameters where CUDA refuses one replica: $transport"
done
EMU_FAIL=

# Heads as wide as these are computed on the host: what stands around them is recorded all the same.
alike 1 -graph gpt:layers=2,hidden=288,heads=1,sequence=9,vocabulary=40
[ "$(replays)" -ge 90 ] || fail "only $(replays) launches of graphs around attention on the host"

# Relative positions; what fails on the device is said.
alike 1 -graph t5:layers=2,hidden=16,heads=2,sequence=7,target=5,vocabulary=30,head_width=6,buckets=8,distance=7
EMU_FAIL=kernel:120 # of those that are launched, or recorded
refuses 1 "GPU 0 failed and answers no more" $base $dropout
EMU_FAIL=
finish
