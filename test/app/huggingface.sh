#!/bin/sh
# Folders of Hugging Face: networks of config.json, their parameters, the way back, and what is refused. The losses are
# those of transformers, as huggingface.json has them.
. "${0%/*}/common.sh"
python=python3
"$python" -c '' 2>/dev/null || exit 77
make="$python $top_srcdir/test/app/huggingface.py"
train="train -data data.h5 -data_validation 0 -data_shuffle 0 -batch_size 8 -microbatch_size 4 -progress none -seed 1"
adam="-optimizer_type adamw -optimizer_learning_rate 0.001 -optimizer_epsilon 1e-5 -optimizer_weight_decay 0.01 -steps 5"

# the DATA of all networks
$make write llama-1 || fail "no folder is made"
accepts 1 data npy llama-1/tokens.npy llama-1/labels.npy data.h5

# All networks, on one rank.
for network in $($make list); do
  $make write $network || fail "no folder $network is made"
  data=data.h5 sizes=,sequence=12
  case $network in *bert* | vit* | t5* | whisper*) data=$network/data.h5 && accepts 1 data npy $network/*.npy $data ;; esac
  case $network in vit*) sizes= ;; whisper*) sizes=,target=12 ;; esac
  accepts 1 $train -data $data -graph hf:$network$sizes -initial $network $adam -monitor csv:losses.csv
  $make compare $network losses.csv >out 2>&1 || fail "other losses than those of transformers"
  rm -f losses.csv
done

# Any layout has the same bits, of one file or two, and goes back to the bytes it came from.
for network in llama-1 gpt2-1 gpt_neox-1 phi3-1; do
  rm -rf still back back.h5
  run="$train -graph hf:$network,sequence=12 -graph_lanes 2 -initial $network -parameter_digest"
  accepts 1 $run $adam
  says "parameters and states are those of $network"
  digest=$(digest)
  accepts 2 $run $adam -layout_pipeline 2
  says "$digest"
  accepts 2 $run $adam -layout_tensor 2
  says "$digest"
  accepts 2 $run -steps 1 -optimizer_type sgd -optimizer_learning_rate 0 -layout_tensor 2 -checkpoint_dir still
  accepts 2 export still/ back/
  says "back/ has the parameters of still/, and config.json of $network"
  equal_files back/model.safetensors $network/model.safetensors "other bytes than before"
  equal_files back/config.json $network/config.json "another config.json than before"
  refuses 2 "back is there already: export makes a new folder" export still back
  rm -rf $network.two
  cp -r $network $network.two
  $make change $network.two two
  accepts 2 $run $adam -initial $network.two -layout_pipeline 2
  says "$digest"
done
# Begun on one layout, gone on with on another, exported: as without the break.
rm -rf whole begun
run="$train -graph hf:qwen3-1,sequence=12 -graph_lanes 2 -initial qwen3-1"
accepts 1 $run $adam -checkpoint_dir whole
accepts 1 export whole whole.folder
accepts 2 $run $adam -steps 2 -layout_pipeline 2 -checkpoint_dir begun
accepts 2 $run $adam -resume -steps 4 -layout_data 2 -layout_zero 3 -checkpoint_dir begun
accepts 2 $run $adam -resume -layout_tensor 2 -checkpoint_dir begun
accepts 2 export begun begun.folder
equal_files whole.folder/model.safetensors begun.folder/model.safetensors "other numbers after a break"
differ "$(cksum <whole.folder/model.safetensors)" "$(cksum <qwen3-1/model.safetensors)" "nothing is trained"
accepts 1 export still cut -export_file 4KB -export_type bfloat16
[ -f cut/model.safetensors.index.json ] || fail "no index"
grep -q '"dtype": *"bfloat16"' cut/config.json || fail "config.json does not say bfloat16"
accepts 1 $train -graph hf:cut,sequence=12 -initial cut -steps 1
# Its vocabulary is no folder's.
rm -rf own
accepts 1 train -graph $mlp -data synthetic -batch_size 8 -steps 1 -checkpoint_dir own -progress none
accepts 1 export own plain
says "plain has the parameters of own, and no config.json"
refuses 2 "other/config.json: No such file or directory" export own with -export_like other
[ ! -e with ] || fail "a folder is left"
[ -z "$(ls -d ./*.part 2>/dev/null)" ] || fail "half a folder is left"
refuses 2 "llama-1 is of Hugging Face, and no checkpoint: -initial reads it" export llama-1 with
refuses 2 "llama-1 is of Hugging Face, and no checkpoint: -initial reads it" info -checkpoint llama-1
refuses 1 "renga export: some word is missing" export own

# changed WAY NETWORK: a copy of the folder that is changed so, and the run that reads it
changed() {
  rm -rf spoilt
  cp -r "$2" spoilt
  $make change spoilt "$1" || fail "cannot change a folder: $1"
}
begin="$train -graph hf:llama-1,sequence=12 -initial spoilt -steps 0 -optimizer_type sgd -parameter_digest"
accepts 1 $begin -initial llama-1
digest=$(digest)
for way in half mask wordless; do
  changed $way llama-1
  accepts 2 $begin -layout_pipeline 2
  says "$digest"
done
of_bert="$train -data bert-1/data.h5 -graph hf:bert-1,sequence=12 -steps 0 -optimizer_type sgd -parameter_digest"
accepts 1 $of_bert -initial bert-1
digest=$(digest)
for way in old wordless; do
  changed $way bert-1
  accepts 2 $of_bert -initial spoilt -layout_pipeline 2
  says "$digest"
done
$make write gemma-1
changed tied gemma-1
accepts 2 $train -graph hf:gemma-1,sequence=12 -initial spoilt -steps 0
changed untied gemma-1
refuses 2 "lm_head.weight of the file is not in the network" $train -graph hf:gemma-1,sequence=12 -initial spoilt -steps 0
broken="$begin -checkpoint_dir never"
changed short llama-1
refuses 2 "of the data, which has" $broken
says "is the file truncated?"
changed tall llama-1
refuses 2 "its header is said to have 9223372036854775808 bytes" $broken
changed overlap llama-1
refuses 2 "overlap at byte" $broken
changed type llama-1
refuses 2 "is of type F12, which is not" $broken
$make write llama-1 vocab_size=96
refuses 2 "model.embed_tokens.weight is float32[96,32] in the network, float32[64,32] in the file" $broken -initial llama-1
$make write llama-1
changed missing llama-1
refuses 2 "model.embed_tokens.weight float32[64,32] of the network is not in the file" $broken
accepts 1 $begin -initial_partial
changed more llama-1
refuses 2 "model.extra.weight of the file is not in the network" $begin
changed shape llama-1
refuses 2 "model.embed_tokens.weight is float32[64,32] in the network, float32[2048] in the file" $broken
changed nan llama-1
refuses 2 "spoilt: model.embed_tokens.weight has a number that is not finite" $broken
changed two llama-1
rm spoilt/model-00002-of-00002.safetensors
refuses 2 "model-00002-of-00002.safetensors is missing, one of 2 files that model.safetensors.index.json names" $broken
[ -z "$(ls never)" ] || fail "something is written"
accepts 1 $train -graph hf:llama-1,sequence=12 -steps 0
says "first values are random: -initial llama-1 takes the folder's"

# says_no SENTENCE KEY=JSON...: the config.json of the network with these is refused.
says_no() {
  sentence=$1
  shift
  $make write "$network" "$@"
  refuses 2 "$sentence" info -graph "hf:$network"
}
network=llama-1
says_no "networks of type mamba are not built from their folder; built are bert, gemma" 'model_type="mamba"'
says "export it from Python by renga.export and train the file (doc/huggingface.md)"
says_no "of type llama only LlamaForCausalLM is built" 'architectures=["LlamaForSequenceClassification"]'
says_no "warp is 3, of which is not known what it changes in a network of type llama" warp=3
says_no "quantization_config is {\"bits\":4}, of which is not known" 'quantization_config={"bits":4}'
says_no "hidden_act is \"mish\", which is not built" 'hidden_act="mish"'
says_no "rope_parameters has the type dynamic, which is not built; built are default, linear, llama3, yarn, longrope" \
  'rope_parameters={"rope_type":"dynamic","factor":4}'
says_no "rope_parameters: beta_fast is 32, of which is not known what it changes" 'rope_parameters={"beta_fast":32}'
says_no "rope_scaling: mscale is 1, of which is not known what it changes" 'rope_scaling={"type":"yarn","mscale":1}'
says_no "short_factor has 1 numbers, must have 4" \
  'rope_parameters={"type":"longrope","original_max_position_embeddings":8,"short_factor":[1],"long_factor":[1,2,3,4]}'
says_no "rope_parameters: long_factor has no number above 0 at place 1" 'rope_parameters={"type":"longrope","long_factor":[1,-2]}'
says_no "the scaling of positions has no original_max_position_embeddings" 'rope_parameters={"type":"yarn","factor":2}'
says_no "the scaling of positions has no factor" 'rope_scaling={"type":"linear"}'
says_no "hidden_size is 0, must be an integer from 1 to 1000000000" hidden_size=0
says_no "num_hidden_layers is \"two\", must be an integer" 'num_hidden_layers="two"'
says_no "4 heads are no multiple of num_key_value_heads, 3" num_key_value_heads=3
says_no "1000000 layers, of at most 100000" num_hidden_layers=1000000
says_no "0.2 of the 8 numbers of a head turn, which are no pairs" \
  'rope_parameters={"rope_type":"default","partial_rotary_factor":0.2}'
says_no "pad_token_id is 64, must be a token of 64 or null" pad_token_id=64
says_no "does not say the epsilon of its norms" rms_norm_eps=null
says_no "layer_types has chunked_attention, which is not built" 'layer_types=["full_attention","chunked_attention"]'
says_no "layer 1 has sliding_attention, and there is no sliding_window" \
  'layer_types=["full_attention","sliding_attention"]'
network=gemma2-1
says_no "hidden_activation is \"relu\"; only \"gelu_pytorch_tanh\" is built" 'hidden_activation="relu"'
says_no "use_bidirectional_attention is true; only false is built" use_bidirectional_attention=true
network=stablelm-1
says_no "use_parallel_residual is true; only false is built" use_parallel_residual=true
says_no "qk_layernorm is true; only false is built" qk_layernorm=true
network=vit-1
says_no "image_size 16 is no multiple of patch_size 3, or above 65536" patch_size=3
says_no "id2label is 3, must name each class" id2label=3
network=roberta-1
says_no "tie_word_embeddings is false; only true is built" tie_word_embeddings=false
says_no "position_embedding_type is \"relative_key\"; only \"absolute\" is built" 'position_embedding_type="relative_key"'
network=modernbert-1
says_no "mlp_dropout is 0.1; only 0.0 is built" mlp_dropout=0.1
says_no "classifier_activation is \"relu\"; only \"gelu\" is built" 'classifier_activation="relu"'
network=t5-1
says_no "6 kinds of distances up to 128: only multiples of 4" relative_attention_num_buckets=6
says_no "feed_forward_proj is \"gated-mish\", which is not built" 'feed_forward_proj="gated-mish"'
says_no "is_encoder_decoder is false; only true is built" is_encoder_decoder=false
$make write t5-1
accepts 1 info -graph hf:t5-1,sequence=12,target=7
says "target                           int64[N,7]"
# Its text is one on all layouts, alone or beside others; what does not go with an encoder is refused.
write="generate -checkpoint t5-1 -prompt_tokens"
pair="-graph hf:t5-1,sequence=12,target=7 -temperature 2 -tokens"
accepts 1 $write '5,6;7,8,9,10,1' $pair 7
cp out written
accepts 1 $write '5,6;7,8,9,10,1' $pair 7 -generate_cache off
equal_files out written "without caches it is another text"
accepts 2 $write '5,6;7,8,9,10,1' $pair 7 -layout_pipeline 2
equal_files out written "stages write another text"
accepts 2 $write '5,6;7,8,9,10,1' $pair 7 -graph_lanes 2 -layout_tensor 2
equal_files out written "tensor-parallel ranks write another text"
accepts 1 $write 7,8,9,10,1 $pair 7
equal "$(tail -n 1 out)" "$(tail -n 1 written)" "alone it is another text"
refuses 2 "-tokens 8: the network's target has 7; write fewer, or build it with a longer target" $write 5 $pair 8
refuses 2 "-data data.h5: the network reads prompts alone" $write 5 $pair 7 -data data.h5
refuses 2 "has 13 tokens, and the network's sequence is 12" $write 1,2,3,4,5,6,7,8,9,10,11,12,13 $pair 7
refuses 2 "no source_mask that says which of it is padding" $write 5 $pair 7 -graph hf:t5-1,padding=0
printf '{"context": [5], "choices": [[6], [7]], "answer": 1}\n' >asked.jsonl
refuses 2 "the network has an encoder, and answers are judged of decoders alone" eval -graph hf:t5-1,sequence=12 -initial t5-1 \
  -eval_choices asked.jsonl
refuses 2 "hf: target=7, but bert-1 has no decoder beside an encoder" info -graph hf:bert-1,target=7
network=whisper-1
says_no "activation_dropout is 0.5; only 0.0 is built" activation_dropout=0.5
says_no "apply_spec_augment is true; only false is built" apply_spec_augment=true
says_no "does not say all of decoder_layers, decoder_attention_heads" decoder_layers=null
says_no "the width 32 is no multiple of 5 heads of the decoder" decoder_attention_heads=5
$make write whisper-1
refuses 2 "hf: sequence=12, but whisper-1 reads sound of one length" info -graph hf:whisper-1,sequence=12
refuses 2 "hf: target=13, but whisper-1 has learned positions for 12 tokens" info -graph hf:whisper-1,target=13
write="generate -graph hf:whisper-1 -checkpoint whisper-1 -temperature 0 -tokens"
refuses 2 "-data is missing" $write 3
accepts 1 $write 3 -data whisper-1/data.h5 -generate_cache on
equal 8 "$(grep -c '^ [0-9]* [0-9]* [0-9]*$' out)" "not a text for each sample"
refuses 2 "2 prompts for 8 samples of -data: give one for all, one for each, or none" $write 3 -data whisper-1/data.h5 \
  -prompt_tokens '5;6'
refuses 2 "-tokens 12: the network's target has 12, with the prompt and the token before it" $write 12 -data whisper-1/data.h5 \
  -prompt_tokens 5
network=gpt2-1
says_no "scale_attn_by_inverse_layer_idx is true; only false is built" scale_attn_by_inverse_layer_idx=true
$make write gpt2-1
$make write roberta-1
refuses 1 "hf: sequence=17, but gpt2-1 has learned positions for 16 tokens" info -graph hf:gpt2-1,sequence=17
$make write vit-1
refuses 1 "hf: sequence=12, but vit-1 reads images" info -graph hf:vit-1,sequence=12
refuses 1 "hf: sequence=32, but roberta-1 has learned positions for 30 tokens" info -graph hf:roberta-1,sequence=32
accepts 1 info -graph hf:roberta-1,padding=0
lacks attention_mask
refuses 2 "hf has no setting \"sequenc\"; did you mean sequence?" info -graph hf:gpt2-1,sequenc=3
refuses 2 "nowhere/config.json: No such file or directory" info -graph hf:nowhere
mkdir empty
echo '[]' >empty/config.json
refuses 2 "empty/config.json is no JSON object" info -graph hf:empty
# What older files say in another way is the same network.
same() { # NETWORK KEY=JSON...
  network=$1
  $make write "$@"
  accepts 1 $train -graph hf:$network,sequence=12 -initial $network $adam -monitor csv:losses.csv
  $make compare $network losses.csv >out 2>&1 || fail "another network by $*"
  rm -f losses.csv
}
scaling='{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":16}'
same llama-2 rope_parameters=null rope_theta=500000 "rope_scaling=$scaling"
same qwen2-2 rope_parameters=null rope_theta=1e6 'rope_scaling={"type":"linear","factor":2.0}' layer_types=null
same gpt_neox-2 rope_parameters=null rotary_pct=0.5 rotary_emb_base=500
same gemma3-1 rope_parameters=null rope_theta=1e6 rope_local_base_freq=10000 layer_types=null sliding_window_pattern=2
same gemma2-1 rope_parameters=null rope_theta=10000.0 layer_types=null
same phi-1 rope_parameters=null partial_rotary_factor=0.5 pad_token_id=null
finish
