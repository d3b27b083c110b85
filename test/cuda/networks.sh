#!/bin/sh
# Networks on the cuda device and the emulated runtime: cpu's losses; the same bits on every layout and
# in ten orders of the streams; interrupted and resumed, also with cpu in between; PyTorch's losses of
# recorded steps (with RENGA_TEST_FULL of all networks there are).
. "${0%/*}/../app/common.sh"
if [ -z "${CUDA_EMULATED:-}" ]; then
  echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"
  exit 77
fi
on_cuda="-device_type cuda -device_cuda_module $top_builddir/test/cuda/renga_cudaemu.so
  -device_cuda_workspace 1"
run="-data synthetic -data_samples 64 -batch_size 8 -microbatch_size 2 -seed 3 -progress none
  -parameter_digest -transport_type staged"

# near STEPS: the losses of cuda.csv are those of cpu.csv.
near() {
  cut -d, -f2 cpu.csv >cpu.txt
  cut -d, -f2 cuda.csv | paste -d, cpu.txt - | awk -F, -v steps="$1" '
    NR > 1 { d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-5 * $1)) bad = 1 }
    END { exit bad || NR != steps + 1 }' || { cat cpu.csv cuda.csv >out; fail "other losses than cpu's: $name"; }
}

# same RANKS ARGUMENT...: the parameters become those of one.txt.
same() {
  accepts "$@"
  digest >other.txt
  equal_files one.txt other.txt "other parameters: $* with $(env | grep '^EMU_' | tr '\n' ' ')"
}

# network NAME OPTIONS...: its losses, and its bits on five layouts.
network() {
  name=$1
  train="train $run -steps 3 -graph $*"
  rm -f cpu.csv cuda.csv
  accepts 1 $train -device_type cpu -monitor csv:cpu.csv
  accepts 1 $train $on_cuda -monitor csv:cuda.csv
  digest >one.txt
  near 3
  same 2 $train $on_cuda -layout_pipeline 2
  same 2 $train $on_cuda -layout_pipeline 1 -layout_data 2
  same 4 $train $on_cuda -layout_pipeline 2 -layout_data 2
  same 3 $train $on_cuda -layout_pipeline 3
}

# A share of the optimizer on each replica, by the host and by NCCL: parameters in several pieces.
for precision in fp32 bf16; do
  train="train -data synthetic -batch_size 8 -microbatch_size 2 -progress none -parameter_digest -steps 3
    -graph mlp:sizes=40-500-70-5 -optimizer_type adamw -optimizer_clip_norm 0.5 -precision $precision"
  accepts 1 $train $on_cuda
  digest >one.txt
  export EMU_DEVICES=2 EMU_SEED=3
  for transport in staged nccl; do
    same 2 $train $on_cuda -layout_data 2 -layout_zero 1 -transport_type $transport
  done
  unset EMU_DEVICES EMU_SEED
done

# Shares of gradients and of parameters, and what lies in the host's memory: moments, saved activations.
train="train $run -steps 3 -graph gpt:layers=2,hidden=16,heads=2,sequence=9,vocabulary=40,dropout=0.1 -optimizer_type adamw"
accepts 1 $train $on_cuda
digest >one.txt
replicas="-partition_type even -pipeline_buckets 3"
export EMU_DEVICES=4
for transport in staged nccl; do
  same 3 $train $on_cuda $replicas -layout_data 3 -layout_zero 2 -device_poison -transport_type $transport
  same 4 $train $on_cuda $replicas -layout_pipeline 2 -layout_data 2 -layout_zero 3 -transport_type $transport
done
same 2 $train $on_cuda $replicas -layout_data 2 -layout_zero 3 -layout_offload all -transport_type nccl
unset EMU_DEVICES
same 1 $train $on_cuda -layout_offload all
same 2 $train $on_cuda -layout_pipeline 2 -layout_offload saved -device_poison

pairs=layers=2,hidden=16,heads=2,sequence=7,target=5,vocabulary=30
network mlp:sizes=8-16-16-4
network resnet:depth=18,width=0.0625,image=64,classes=5 -optimizer_learning_rate 0.00001 -microbatch_size 4
network t5:$pairs,head_width=6,buckets=8,distance=7
network bert:layers=2,hidden=16,heads=2,sequence=9,vocabulary=30,next_sentence=1 -optimizer_type adamw
network llama:layers=2,hidden=32,heads=4,groups=2,sequence=9,vocabulary=40 -optimizer_type adamw
network gpt:layers=2,hidden=16,heads=2,sequence=33,vocabulary=40,dropout=0.1 -optimizer_type adamw

# In 16 bits its kernels make one and the same bits, too, near fp32's losses; in tf32 and fp8 products are rounded.
fp32=$(cat one.txt)
for precision in bf16 fp16 tf32 fp8; do
  low="$train $on_cuda -precision $precision"
  rm -f low.csv
  accepts 1 $low -monitor csv:low.csv
  digest >one.txt
  differ "$fp32" "$(cat one.txt)" "-precision $precision changes nothing"
  cut -d, -f2 low.csv | paste -d, cpu.txt - | awk -F, 'NR > 1 { d = $1 - $2; if (d < 0) d = -d; if (!(d <= 0.01 * $1)) bad = 1 }
    END { exit bad || NR != 4 }' || fail "other losses in $precision than in fp32"
  same 2 $low -layout_pipeline 2
  same 2 $low -layout_data 2 -layout_pipeline 1
  same 4 $low -layout_pipeline 2 -layout_data 2
  same 3 $low -layout_pipeline 3
  (EMU_MODE=sync EMU_ORDER=check && export EMU_MODE EMU_ORDER && same 1 $low && exit $failures) || failures=$((failures + 1))
done
echo "$fp32" >one.txt

# Products of 8 bits, and in their place of bfloat16: the same bits on the emulated runtime, whose sums are float32's.
eights="train $run -steps 3 -precision fp8 -graph gpt:layers=2,hidden=32,heads=2,sequence=16,vocabulary=48 -optimizer_type adamw"
cp one.txt before.txt
accepts 1 $eights $on_cuda
digest >one.txt
(EMU_CAPABILITY=80 && export EMU_CAPABILITY && same 1 $eights $on_cuda && exit $failures) || failures=$((failures + 1))
same 2 $eights $on_cuda -layout_data 2 -layout_zero 3 -device_poison
(EMU_TRACE=1 && export EMU_TRACE && accepts 1 $eights $on_cuda -steps 1 -device_graphs off && says "queued: kernel TurnedBytesKernel" &&
  exit $failures) || failures=$((failures + 1))
cp before.txt one.txt

# The network before: ten orders of the streams.
for EMU_SEED in 2 3 4 5 6 7 8 9 10; do
  export EMU_SEED
  same 1 $train $on_cuda
done
export EMU_SEED=11
same 2 $train $on_cuda -layout_pipeline 2
unset EMU_SEED

# Its first step, then the others, on another layout; then each on another device.
resume="-checkpoint_dir c -checkpoint_every 1"
accepts 1 $train -steps 1 $on_cuda $resume
same 2 $train $on_cuda $resume -resume -layout_pipeline 2
rm -rf c cuda.csv
accepts 1 $train -steps 1 -device_type cpu $resume -monitor csv:cuda.csv
accepts 1 $train -steps 2 $on_cuda $resume -resume -monitor csv:second.csv
accepts 1 $train -device_type cpu $resume -resume -monitor csv:third.csv
tail -n 1 second.csv >>cuda.csv
tail -n 1 third.csv >>cuda.csv
near 3

recorded="mlp_export gpt_export bert_export lstm_export resnet_trace"
[ -z "${RENGA_TEST_FULL:-}" ] || recorded=_
own env RENGA_OPTIONS="$on_cuda" EMU_MODE=sync timeout -k 5 $((20 * limit)) "$mpiexec" -n 1 \
  "$top_builddir/test/reference/training" $recorded </dev/null >out 2>&1 || fail "other losses than PyTorch's"
finish
