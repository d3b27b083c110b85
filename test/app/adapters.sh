#!/bin/sh
# Adapters of low rank and frozen parameters: from a folder of adapters to a folder of adapters, with the losses and the
# factors of peft, as adapters.json has them, on any layout; merged weights; labels that do not count; what is refused.
. "${0%/*}/common.sh"
python=python3
"$python" -c '' 2>/dev/null || exit 77
make="$python $top_srcdir/test/app/huggingface.py"
adapters="$python $top_srcdir/test/app/adapters.py"
train="train -data_validation 0 -data_shuffle 0 -batch_size 8 -microbatch_size 4 -progress none -seed 1 -parameter_digest"
adam="-optimizer_type adamw -optimizer_learning_rate 0.01 -optimizer_epsilon 1e-5 -optimizer_weight_decay 0.01 -steps 5"
still="-optimizer_type sgd -optimizer_learning_rate 0 -steps 1"

# take NETWORK: its folder, its data, its adapters; run: the options that train these.
take() {
  $make write "$1" || fail "no folder $1 is made"
  $adapters write "$1" "$1.adapters" || fail "no adapters of $1 are made"
  accepts 1 data npy "$1"/*.npy "$1.h5" -overwrite
  options=$($adapters options "$1")
  base="$train -data $1.h5 -graph hf:$1,sequence=12 -initial $1"
  run="$base $options -initial_adapter $1.adapters"
}

# compared NETWORK: the run wrote losses.csv and a checkpoint in kept.
compared() {
  rm -rf back
  accepts 1 export kept back
  says "back has the adapters of kept, for the network of $1"
  $adapters compare "$1" losses.csv back >out 2>&1 || fail "other losses or adapters than those of peft"
}

for network in $($adapters list); do
  rm -rf kept merged losses.csv
  take $network
  accepts 1 $run $adam -monitor csv:losses.csv -checkpoint_dir kept
  says "tensors of adapters are those of $network.adapters"
  compared $network
  accepts 2 export kept merged -export_merged
  says "merged has the parameters of kept, and config.json of $network"
  $adapters merged $network back merged >out 2>&1 || fail "merged weights are others"
done

# Any layout has the same bits, and adapters that are not trained come back as the bytes that they were.
for network in llama-1 gpt2-1; do
  take $network
  accepts 1 $run $adam
  digest=$(digest)
  for layout in "-layout_pipeline 2" "-layout_data 2" "-layout_pipeline 2 -layout_recompute full" \
    "-layout_data 2 -layout_zero 3" \
    "-layout_pipeline 2 -schedule_type zb-h2"; do
    accepts 2 $run $adam $layout
    says "$digest"
  done
  accepts 1 $run $adam -graph_lanes 2
  digest=$(digest)
  accepts 2 $run $adam -layout_tensor 2
  says "$digest"
  rm -rf kept back
  accepts 2 $run $still -layout_pipeline 2 -checkpoint_dir kept
  accepts 1 export kept back -export_like $network
  equal_files back/adapter_model.safetensors $network.adapters/adapter_model.safetensors "other bytes than before"
done

# Tensor-parallel ranks split products with adapters as they do those without.
take llama-1
accepts 1 info -graph hf:llama-1,sequence=12 $options -graph_lanes 2 -graph_view ascii
says "2, of 85 nodes of the network, 7 of them summed" # without adapters 75 and 5

# Moments in the host's memory.
accepts 1 $run $adam -device_type far
digest=$(digest)
accepts 2 $run $adam -device_type far -layout_offload optimizer -layout_data 2
says "$digest"

# In 16 bits; with a dropout; with the norms besides.
for more in "-precision bf16" "-graph_lora_dropout 0.25" "-graph_trained *norm*"; do
  set -f
  accepts 1 $run $adam $more
  digest=$(digest)
  accepts 2 $run $adam $more -layout_pipeline 2
  set +f
  says "$digest"
done

# Begun on one layout, gone on with on another, exported: as without the break.
take qwen3-2
rm -rf whole begun whole.folder begun.folder
accepts 1 $run $adam -graph_lanes 2 -checkpoint_dir whole
accepts 1 export whole whole.folder
accepts 2 $run $adam -graph_lanes 2 -steps 2 -layout_pipeline 2 -checkpoint_dir begun
accepts 2 $run $adam -resume -layout_tensor 2 -checkpoint_dir begun
says "-initial_adapter qwen3-2.adapters is not read: the run goes on from its own checkpoint"
accepts 2 export begun begun.folder
equal_files whole.folder/adapter_model.safetensors begun.folder/adapter_model.safetensors "other numbers after a break"

# A network begins with random factors, of which one is zero: nothing has changed yet.
take llama-1
accepts 1 eval -data llama-1.h5 -batch_size 8 -part all -graph hf:llama-1,sequence=12 -initial llama-1
loss=$(grep "^loss" out)
accepts 2 eval -data llama-1.h5 -batch_size 8 -part all -graph hf:llama-1,sequence=12 -initial llama-1 $options
says "21 of 33 parameters and states are those of llama-1" "$loss"
# What is trained besides is no adapter.
rm -rf kept
accepts 1 $run $adam -graph_trained lm_head.weight -checkpoint_dir kept
refuses 2 "has 1 tensors besides its adapters that the run has changed" export kept other
[ ! -e other ] || fail "a folder is left"
accepts 1 export kept other -export_merged
accepts 1 export kept narrow -export_merged -export_type bfloat16
accepts 1 $base -initial narrow -steps 0
rm -rf plain
accepts 1 $base $still -checkpoint_dir plain
refuses 2 "has no adapters that could be merged" export plain other.folder -export_merged
accepts 2 $base -initial kept $options -steps 0
refuses 2 "model.layers.0.mlp.down_proj.lora_A.weight of the file is not in the network" $base -initial kept -steps 0
evaluate="eval -data llama-1.h5 -batch_size 8 -part all -graph hf:llama-1,sequence=12"
refuses 2 "kept/step_000000005.h5 holds another network, 12 differences" $evaluate -initial kept
refuses 2 "kept/step_000000005.h5 has adapters of rank 4, and the network has none" \
  predict scores.h5 -output logits ${evaluate#* } -initial kept
accepts 2 $evaluate -initial kept $options
loss=$(grep -o "^loss [0-9.]\{6\}" out)
accepts 1 $evaluate -initial other
says "$loss"
refuses 2 "have alpha 6, and those of the network 12" $evaluate -initial kept $options -graph_lora_alpha 12
# Texts are written with keys and values in caches, too.
writes="generate -graph hf:llama-1,sequence=12 $options -checkpoint kept -temperature 0 -tokens 6 -generate_format jsonl"
accepts 1 $writes -prompt_tokens 1,2,3 -generate_cache off
tail -n 1 out >whole.text
for layout in "" "-layout_tensor 2 -graph_lanes 2"; do
  accepts 2 $writes -prompt_tokens 1,2,3 -generate_cache on $layout
  tail -n 1 out | cmp - whole.text || fail "other texts from caches: $layout"
done

# changed WAY: a copy of the adapters that is changed so.
changed() {
  rm -rf spoilt
  cp -r llama-1.adapters spoilt
  $adapters change spoilt "$1" || fail "cannot change a folder: $1"
}
begin="$base $options -steps 0 -optimizer_type sgd"
accepts 1 $begin -initial_adapter llama-1.adapters
digest=$(digest)
changed half
accepts 2 $begin -initial_adapter spoilt -layout_pipeline 2
says "$digest"
changed missing
refuses 2 "spoilt holds other adapters, 1 differences:" $begin -initial_adapter spoilt
says "lora_B.weight float32[32,4] of the network is not in the file"
changed more
refuses 2 "lm_head.weight of the file is not in the network" $begin -initial_adapter spoilt
changed bare
refuses 2 "the name \"other\" does not begin with base_model.model." $begin -initial_adapter spoilt
changed nan
refuses 2 "has a number that is not finite" $begin -initial_adapter spoilt
changed short
refuses 2 "is the file truncated?" $begin -initial_adapter spoilt
rm spoilt/adapter_model.safetensors
refuses 2 "spoilt/adapter_model.safetensors: No such file or directory" $begin -initial_adapter spoilt
refuses 2 "adapter_config.json: No such file or directory" $begin -initial_adapter llama-1
refuses 2 "llama-1.adapters has adapters alone: -initial reads the folder of their network" $begin -initial llama-1.adapters
refuses 2 "is an adapter of rank 4, and the network has none: it needs -graph_lora 4 -graph_lora_alpha 6" \
  $base -initial_adapter llama-1.adapters
refuses 2 "counts 1.5 times, and that of the network 1 times: -graph_lora_alpha 6" \
  $begin -graph_lora_alpha 4 -initial_adapter llama-1.adapters
refuses 2 "model.layers.0.mlp.down_proj.lora_A.weight is float32[2,48] in the network, float32[4,48] in the file" \
  $begin -graph_lora 2 -graph_lora_alpha 3 -initial_adapter llama-1.adapters
# says_no SENTENCE KEY=JSON...: adapter_config.json with these is refused.
says_no() {
  sentence=$1
  shift
  $adapters write llama-1 spoilt "$@"
  refuses 2 "$sentence" $begin -initial_adapter spoilt
}
$adapters write llama-1 spoilt use_rslora=true lora_alpha=3 new_key=null
accepts 1 $begin -initial_adapter spoilt
says "$digest"
says_no "use_dora is true, and such adapters are not computed here" use_dora=true
says_no "peft_type is \"IA3\", and such adapters" 'peft_type="IA3"'
says_no "alpha_pattern is {\"q_proj\":3}, and such adapters" 'alpha_pattern={"q_proj":3}'
says_no "init_lora_weights is \"pissa\", and such adapters" 'init_lora_weights="pissa"'
says_no "new_key is 3, and such adapters" new_key=3
says_no "r is 0 and lora_alpha 6, must be an integer from 1 on and a number" r=0
says_no "does not say its peft_type" peft_type=null
refuses 2 "-graph_lora needs -graph_lora_targets: which products have adapters?" $base -graph_lora 4
refuses 2 "-graph_lora_targets: \"q_prj\" fits no parameter of the network" $base -graph_lora 4 -graph_lora_targets q_proj,q_prj
refuses 2 "fits model.embed_tokens.weight, which has no adapter" $base -graph_lora 4 -graph_lora_targets embed_tokens
refuses 2 "need -graph_lora: adapters of which rank?" $base -graph_lora_alpha 4
refuses 2 "-graph_lora -4: must be from 0 to 65536" $base -graph_lora -4

# Frozen parameters have no moments in files. A run goes on with fewer of them, or more, as far as it has moments.
set -f
frozen="-graph_frozen * -graph_trained *norm*,lm_head*"
rm -rf kept
accepts 1 $base $adam $frozen
digest=$(digest)
accepts 2 $base $adam -steps 3 $frozen -layout_pipeline 2 -checkpoint_dir kept
accepts 2 $base $adam $frozen -layout_data 2 -checkpoint_dir kept -resume
says "$digest"
accepts 2 $base $adam -steps 6 -checkpoint_dir kept -resume
says "graph_frozen             was *, is none"
accepts 2 $base $adam -steps 7 $frozen -checkpoint_dir kept -resume
# In 16 bits what is frozen has no more than these, on any layout, and in a checkpoint, which is gone on with in 32 bits, too.
brain="$base $adam -graph_frozen * -graph_trained *norm* -graph_lanes 2"
accepts 1 $brain -precision bf16
digest=$(digest)
accepts 2 $brain -precision bf16 -steps 3 -layout_tensor 2 -checkpoint_dir brain
accepts 2 $brain -precision bf16 -layout_data 2 -layout_zero 3 -checkpoint_dir brain -resume
says "$digest"
accepts 1 $brain -steps 5 -checkpoint_dir wide
[ $((2 * $(wc -c <brain/step_000000005.h5))) -lt $(($(wc -c <wide/step_000000005.h5) + $(wc -c <brain/step_000000003.h5))) ] ||
  fail "a checkpoint has 32 bits of what is frozen"
accepts 2 $brain -steps 7 -layout_pipeline 2 -checkpoint_dir brain -resume
accepts 1 $brain -precision bf16 -steps 7 -layout_pipeline 1 -checkpoint_dir wide -resume
accepts 1 export wide wide.folder
refuses 2 "holds another network or optimizer" $base -optimizer_type sgd -optimizer_momentum 0.9 -steps 8 $frozen -checkpoint_dir kept -resume
set +f

# Labels that do not count: the loss is the mean of those of the batch that do, whichever micro-batch has them.
$adapters mask masked || fail "no labels are made"
accepts 1 data npy masked/tokens.npy masked/labels.npy masked.h5
for layout in "1 -microbatch_size 8" "1 -microbatch_size 1" "2 -microbatch_size 2 -layout_data 2" \
  "2 -microbatch_size 1 -layout_pipeline 2"; do
  accepts ${layout%% *} $base -data masked.h5 $adam ${layout#* } -monitor csv:masked.csv
  $adapters weigh masked.csv >out 2>&1 || fail "another loss with ${layout#* }"
  rm -f masked.csv
done
finish
