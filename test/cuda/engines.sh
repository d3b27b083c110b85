#!/bin/sh
# cuDNN in place of own kernels, on the emulated runtime: gradients, bits on all layouts, and what is
# done where cuDNN is missing, old, wrong, or another one on each rank.
. "${0%/*}/../app/common.sh"
if [ -z "${CUDA_EMULATED:-}" ]; then
  echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"
  exit 77
fi
on_cuda="-device_type cuda -device_cuda_module $top_builddir/test/cuda/renga_cudaemu.so -device_cuda_workspace 1"
EMU_CUDNN=9.19.0
export EMU_CUDNN
for EMU_MODE in sync async; do
  export EMU_MODE
  RENGA_OPTIONS=$on_cuda timeout -k 5 $limit "$mpiexec" -n 1 "$top_builddir/test/cuda/engines" </dev/null >out 2>&1 ||
    fail "test/cuda/engines with EMU_MODE=$EMU_MODE"
done
RENGA_OPTIONS="$on_cuda -device_images channels_last" EMU_ORDER=check EMU_MODE=sync timeout -k 5 $limit "$mpiexec" -n 1 "$top_builddir/test/cuda/operators" \
  </dev/null >out 2>&1 || fail "test/cuda/operators by cuDNN"
unset EMU_MODE

base="train -data synthetic -data_samples 64 -batch_size 8 -microbatch_size 2 -seed 3 -progress none -parameter_digest -steps 3 $on_cuda"
gpt="-precision bf16 -graph gpt:layers=2,hidden=32,heads=2,sequence=9,vocabulary=40,dropout=0 -optimizer_type adamw"
resnet="-precision bf16 -graph resnet:depth=18,width=0.0625,image=32,classes=5 -microbatch_size 4 -device_images channels_last"
same() {
  accepts "$@"
  digest >other.txt
  equal_files one.txt other.txt "other parameters: $* with $(env | grep '^EMU_' | tr '\n' ' ')"
}
of= # what gradients are of
for network in "$gpt" "$resnet"; do
  accepts 1 $base $network -device_cudnn off
  digest >own.txt
  accepts 1 $base $network -device_view ascii
  digest >one.txt
  says "  cuDNN 9.19.0: attention and convolutions" "    its gradient$of, bfloat16, "
  differ "$(cat own.txt)" "$(cat one.txt)" "cuDNN changes nothing: $network"
  same 1 $base $network -device_graphs off
  same 2 $base $network -layout_pipeline 2 -transport_type staged
  same 2 $base $network -layout_pipeline 1 -layout_data 2 -layout_zero 1 -device_poison
  for EMU_SEED in 2 3 4; do
    export EMU_SEED
    same 1 $base $network
  done
  unset EMU_SEED
  of=" of weights"
done

# Images whose channels come last: so they are where cuDNN is in use, but in fp32; else first.
same 1 $base $network -device_images auto -device_view ascii
says "its gradient of weights, bfloat16, 4 x 4 x 8 x 8 by 4 of 3 x 3, stride 1, channels last"
same 3 $base $network -layout_pipeline 3 -transport_type staged
same 2 $base $network -layout_pipeline 1 -layout_data 2 -layout_zero 3 -layout_recompute full
accepts 1 $base $network -device_images channels_first
equal "$(digest)" "$(cat one.txt)" "the order of images changes sums, which the emulated runtime has in one order"
digest >first.txt
same_as_first() {
  accepts "$@"
  equal "$(digest)" "$(cat first.txt)" "other parameters: $*"
}
same_as_first 2 $base $network -layout_pipeline 2 -transport_type staged -device_images channels_first
accepts 1 $base $network -device_cudnn off -device_images channels_first
digest >first.txt
same_as_first 1 $base $network -device_cudnn off -device_images auto

# Statistics, which evaluation reads, are of as many values in either order.
for order in first last; do
  accepts 1 $base $network -precision fp32 -device_cudnn off -eval_every 1 -data_validation 0.5 -device_images channels_$order
  grep "^validation loss" out >validation_$order.txt || fail "no validation: $order"
done
equal_files validation_first.txt validation_last.txt "other validation where channels come last"

# A network with a Transpose of its own behind its images.
mkdir vit
python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1]))["vit-1"]["config"], open("vit/config.json", "w"))' \
  "$top_srcdir/test/app/huggingface.json" || fail "no configuration of a vision transformer"
accepts 1 $base -graph hf:vit -precision bf16 -device_images channels_last
digest >one.txt
same 2 $base -graph hf:vit -precision bf16 -device_images channels_last -layout_pipeline 2 -transport_type staged

# The last one: what each choice is compared with, and what is done then.
own() {
  accepts "$@"
  equal "$(digest)" "$(cat own.txt)" "not all is done by own kernels: $* with $(env | grep '^EMU_' | tr '\n' ' ')"
}
(EMU_FAIL=cudnn:1 && export EMU_FAIL && own 1 $base $network && says "others are not named" "differs from the own kernel's by" &&
  exit $failures) || failures=$((failures + 1))
(EMU_CUDNN_ENGINE=1@1 && export EMU_CUDNN_ENGINE && own 2 $base $network -layout_pipeline 1 -layout_data 2 &&
  says "ranks chose unequal engines of a library for" && exit $failures) || failures=$((failures + 1))
(EMU_FAIL=cudnn:1@1 && export EMU_FAIL && own 2 $base $network -layout_pipeline 1 -layout_data 2 &&
  says "ranks chose unequal engines of a library for" && exit $failures) || failures=$((failures + 1))
same_as_first 1 $base $network -device_cudnn_workspace 0 -device_images channels_first
(EMU_FAIL=plan:20@1 && export EMU_FAIL && accepts 2 $base $network -layout_pipeline 1 -layout_data 2 &&
  says "ranks chose unequal engines of a library for 13 shapes" && exit $failures) || failures=$((failures + 1))
(EMU_CUDNN=9.1.0 && own 1 $base $network -device_view ascii && says "no cuDNN: cuDNN 9.1.0: it is older than cuDNN 9.10" &&
  exit $failures) || failures=$((failures + 1))
(unset EMU_CUDNN && own 1 $base $network -device_view ascii && says "no cuDNN: cuDNN: there is none" && exit $failures) ||
  failures=$((failures + 1))
accepts 1 info -device $on_cuda
says "cuDNN 9.19.0"
latest="ranks with two versions"
ranks="$base $network -layout_pipeline 1 -layout_data 2"
timeout -k 5 $limit "$mpiexec" -n 1 "$renga" $ranks : -n 1 env EMU_CUDNN=9.18.0 "$renga" $ranks </dev/null >out 2>&1 || fail "$latest"
says "1 ranks have another cuDNN, or none, than rank 0 (cuDNN 9.19.0), so no rank uses it"
equal "$(digest)" "$(cat own.txt)" "other parameters with two versions of cuDNN"

# What computed it is known of a checkpoint.
accepts 1 $base $network -checkpoint_dir c -checkpoint_every 1 -steps 1
accepts 1 $base $network -checkpoint_dir c -checkpoint_every 1 -resume -device_cudnn off
says " cuDNN 9.19.0, images channels last, this run computes by"
finish
