#!/bin/sh
# Networks in bf16: the same bits on every layout, near fp32's loss, checkpoints that go on in either
# precision, half the memory of what is saved; nodes that are kept wide; what is refused.
. "${0%/*}/common.sh"
small="-data synthetic -batch_size 8 -microbatch_size 1 -parameter_digest -progress none"
train="train -graph $gpt $small"

# near A B SHARE: two numbers that are close, and not the same.
near() {
  awk -v a="$1" -v b="$2" -v share="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d > 0 && d < share * a) }' ||
    fail "$2 is not near $1"
}

# loss FILE: of the last step.
loss() {
  tail -n 1 "$1" | cut -d, -f2
}

accepts 1 $train -steps 6 -monitor csv:wide.csv
wide=$(digest)
accepts 1 $train -steps 6 -precision bf16 -monitor csv:narrow.csv -checkpoint_dir one
digest=$(digest)
narrow=$digest
differ "$digest" "$wide" "bf16 has the bits of fp32"
near "$(loss wide.csv)" "$(loss narrow.csv)" 0.01
accepts 2 $train -steps 6 -precision bf16 -layout_pipeline 2 -schedule_type gpipe -pipeline_buckets 2
says "$digest"
accepts 2 $train -steps 6 -precision bf16 -layout_data 2 -device_threads 2
says "$digest"
accepts 1 plan -graph $gpt -precision bf16 -machine_file laptop -batch_size 8 -microbatch_size 1 -partition_ranks 4 \
  -layout_pipeline 2 -layout_data 2 -plan_save plan.txt
says "precision bf16"
sed 's/saved keep/saved recompute/' plan.txt >again.txt
accepts 4 $train -steps 6 -precision bf16 -plan_load again.txt
says "$digest"
accepts 2 $train -steps 6 -precision bf16 -layout_chunks 2 -layout_pipeline 2 -device_type far -device_far_seed 3
says "$digest"

# Masters are what checkpoints hold: a run goes on as if nothing had been, and in the other precision, too.
accepts 2 $train -steps 3 -precision bf16 -layout_pipeline 2 -checkpoint_dir cut
accepts 1 $train -steps 6 -precision bf16 -checkpoint_dir cut -resume
says "$digest"
refuses 1 "was bf16, is fp32" $train -steps 8 -checkpoint_dir cut -resume -resume_strict
accepts 2 $train -steps 8 -layout_pipeline 2 -checkpoint_dir cut -resume
says "parameter digest 0x"
accepts 1 $train -steps 10 -precision bf16 -checkpoint_dir cut -resume
says "parameter digest 0x"
accepts 2 eval -graph $gpt -data synthetic -batch_size 8 -precision bf16 -layout_pipeline 2 -initial "$(ls one/*.h5 | tail -n 1)"
accepts 1 generate -graph $gpt -precision bf16 -checkpoint "$(ls one/*.h5 | tail -n 1)" -prompt ab -tokens 4

# What every node keeps wide is fp32.
accepts 2 $train -steps 6 -precision bf16 -precision_keep '*' -layout_pipeline 2
says "$wide"
accepts 2 $train -steps 6 -precision bf16 -precision_keep '*ln*,*.fc' -layout_pipeline 2
some=$(digest)
differ "$some" "$wide" "-precision_keep changed everything"
differ "$some" "$digest" "-precision_keep changed nothing"
accepts 1 $train -steps 6 -precision bf16 -precision_keep '*ln*,*.fc'
says "$some"

# Other networks, among them convolutions, statistics of batches, ties, and a recurrent one.
for network in resnet:depth=18,width=0.25,image=33,classes=4 t5:layers=1,hidden=16,heads=2,sequence=8,vocabulary=32 \
  ncf:users=20,items=30 $mlp; do
  run="train -graph $network $small -steps 3 -precision bf16"
  accepts 1 $run
  digest=$(digest)
  accepts 4 $run -layout_pipeline 2 -layout_data 2
  says "$digest"
done

# fp16 has a scale of the loss: gradients that do not fit halve it, alike on all layouts, and a resumed run knows it.
accepts 1 $train -steps 6 -precision fp16 -monitor csv:short.csv
near "$(loss wide.csv)" "$(loss short.csv)" 0.01
lacks "does not fit fp16"
high="$train -precision fp16 -pipeline_loss_scale 16777216"
accepts 1 $high -steps 8
digest=$(digest)
says "step 0: the gradient does not fit fp16 at this scale of the loss: the step is skipped, the scale is 8388608 now"
skipped=$(grep -c "does not fit fp16" out)
[ "$skipped" -lt 8 ] || fail "no step fits"
accepts 4 $high -steps 8 -layout_pipeline 2 -layout_data 2
says "$digest"
accepts 2 $high -steps 8 -layout_pipeline 2 -device_type far
says "$digest"
accepts 2 $high -steps 3 -layout_pipeline 2 -checkpoint_dir high
accepts 2 $high -steps 8 -layout_data 2 -checkpoint_dir high -resume
says "$digest"
refuses 2 "a loss scale of 1000: a power of two from 1 to 16777216 is needed" $train -steps 1 -precision fp16 -pipeline_loss_scale 1000

# fp8 is bf16 whose linear layers round what they multiply, each by its own scale: also in lanes the same bits on all layouts.
accepts 1 $train -steps 6 -precision fp8 -monitor csv:eight.csv -checkpoint_dir eight
eight=$(digest)
differ "$eight" "$narrow" "fp8 has the bits of bf16"
near "$(loss narrow.csv)" "$(loss eight.csv)" 0.01
accepts 4 $train -steps 6 -precision fp8 -layout_pipeline 2 -layout_data 2 -schedule_type zb-h1 -device_threads 2
says "$eight"
accepts 2 $train -steps 6 -precision fp8 -layout_pipeline 2 -device_type far -device_far_seed 3
says "$eight"
accepts 2 $train -steps 3 -precision bf16 -layout_pipeline 2 -checkpoint_dir mixed
accepts 1 $train -steps 6 -precision fp8 -checkpoint_dir mixed -resume
says "parameter digest 0x"
accepts 1 $train -steps 6 -precision fp8 -precision_keep '*.fc,*.out' -monitor csv:part.csv
differ "$(digest)" "$eight" "-precision_keep changes nothing in fp8"
accepts 1 $train -steps 6 -precision fp8 -graph_lanes 2 -microbatch_size 2
digest=$(digest)
accepts 2 $train -steps 6 -precision fp8 -graph_lanes 2 -microbatch_size 2 -layout_tensor 2
says "$digest"
accepts 2 eval -graph $gpt -data synthetic -batch_size 8 -precision fp8 -layout_pipeline 2 -initial "$(ls eight/*.h5 | tail -n 1)"
accepts 1 generate -graph $gpt -precision fp8 -checkpoint "$(ls eight/*.h5 | tail -n 1)" -prompt ab -tokens 4

# Plans know the bytes of types; a plan is of its network's precision.
plan="plan -graph gpt:layers=8,hidden=256,heads=4,sequence=128 -machine_file h200 -batch_size 64 -microbatch_size 8 \
  -partition_type manual -partition_cuts blocks.4.ln1 -layout_data 1"
accepts 1 $plan -plan_view json:wide.json -plan_save wide.txt
accepts 1 $plan -plan_view json:narrow.json -plan_save narrow.txt -precision bf16
python3 - <<'P' >out 2>&1 || fail "bytes of plans"
import json
wide, narrow = (json.load(open(name + ".json"))["stages"] for name in ("wide", "narrow"))
for a, b in zip(wide, narrow):
    saved, messages = (b["memory_parts"][part] / a["memory_parts"][part] for part in ("saved", "messages"))
    print(saved, messages)
    assert 0.49 < saved < 0.55 and messages == 0.5
P
refuses 2 "precision bf16, but the network's is fp32" train -graph gpt:layers=8,hidden=256,heads=4,sequence=128 -data synthetic \
  -steps 1 -plan_load narrow.txt
refuses 1 "fits no node of the network" $train -precision bf16 -precision_keep 'nothing*'
refuses 1 "-precision bf8: not one of fp32|bf16|fp16|tf32|fp8" $train -precision bf8

# Products of tf32 are the cuda device's (test/cuda/networks.sh); machines have a rate of them, or none.
refuses 2 "the cpu device has no such products; use -device_type cuda, or -precision fp32 or bf16" $train -precision tf32 -steps 1
large="plan -graph gpt:layers=8,hidden=1024,heads=8,sequence=512 -machine_nodes 1 -batch_size 64"
for precision in fp32 tf32 bf16; do
  accepts 1 $large -machine_file dgx-a100 -precision $precision -plan_view json:$precision.json
done
python3 - <<'P' >out 2>&1 || fail "steps of plans by precision"
import json
plans = [json.load(open(name + ".json")) for name in ("fp32", "tf32", "bf16")]
fp32, tf32, bf16 = (plan["predicted"]["step"] for plan in plans)
print(fp32, tf32, bf16)
assert len({plan["graph"] for plan in plans}) == 1
assert bf16 < tf32 < 0.5 * fp32
P
# Where nobody says which precision, a plan says what bfloat16 would give: what the plan with it says,
# in the same sizes; of all sizes one may be faster.
accepts 1 $large -machine_file dgx-a100 -machine_devices 2
says "times as fast; results differ"
step=$(sed -n 's/^  bf16 (-precision bf16) would take at most \([0-9.]* [um]*s\) per step, .*/\1/p' out)
sizes=$(sed -n 's/.*; \(-microbatch_size [0-9]* -partition_leaf [0-9]*\) fix them/\1/p' out)
[ "$(sed -n '$p' out)" = "$(grep 'bf16 (' out)" ] || fail "not the last line"
accepts 1 $large -machine_file dgx-a100 -machine_devices 2 -precision bf16 $sizes
says "predicted: ${step:-none} per step"
lacks "(-precision bf16)"
accepts 1 $large -machine_file dgx-a100 -machine_devices 2 -partition_microbatch_sizes 16,32
says "times as fast; results differ"
accepts 1 $large -machine_file dgx-a100 -machine_devices 2 -precision fp32
lacks "(-precision bf16)"
accepts 1 $large -machine_file laptop -partition_ranks 2 # whose products of bfloat16 are no faster
lacks "(-precision bf16)"
refuses 1 "give it a matrix_rate_tf32" $large -machine_file v100 -precision tf32
refuses 1 "give it a matrix_rate_fp8" $large -machine_file dgx-a100 -precision fp8
# Weights of a kernel that stand on the padding alone, as those of 3 x 3 on one pixel: their gradients are zeros, whatever
# lay in the memory that kernels work in.
pixel="train -graph resnet:depth=18,classes=4,image=16 -data synthetic -data_samples 6 -batch_size 3 -microbatch_size 3 -steps 1
  -optimizer_type sgd -precision bf16 -parameter_digest -progress none"
accepts 1 $pixel
digest=$(digest)
accepts 1 $pixel -device_poison -schedule_type zb-h1
says "$digest"
finish
