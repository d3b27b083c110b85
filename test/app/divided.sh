#!/bin/sh
# Divided networks (-graph_divide): the same bits on any layout, a part for each stage, checkpoints, exports, answers that are the
# mean of the parts', and what is refused.
. "${0%/*}/common.sh"
few="-batch_size 8 -microbatch_size 2 -partition_leaf 1 -steps 3 -progress none -seed 1 -parameter_digest -data synthetic -data_samples 40"
alike="-data_validation 0.2 -graph_divide 4"

for network in mlp:sizes=8-16-16-4 gpt:layers=1,hidden=16,heads=4,sequence=8,vocabulary=32 resnet:depth=18,width=0.0625,image=32,classes=4; do
  accepts 1 train -graph $network $few $alike -graph_lanes 1
  says "accuracy "
  digest=$(digest)
  accepts 4 train -graph $network $few $alike -graph_lanes 1 -layout_pipeline 4
  says "$digest"
  accepts 4 train -graph $network $few $alike -graph_lanes 1 -layout_pipeline 2 -layout_data 2 -schedule_type gpipe
  says "$digest"
  accepts 1 train -graph $network $few $alike -graph_lanes 1 -graph_divide_weight 0
  differ "$digest" "$(digest)" "the divergence has no influence"
done
gpt=gpt:layers=1,hidden=16,heads=4,sequence=8,vocabulary=32
accepts 1 train -graph $gpt $few $alike -graph_lanes 2
digest=$(digest)
accepts 2 train -graph $gpt $few $alike -graph_lanes 2 -layout_tensor 2
says "$digest"

# Gone on with on another layout, evaluated, exported by the names of the parts.
accepts 2 train -graph $gpt $few $alike -graph_lanes 1 -checkpoint_dir whole
digest=$(digest)
accepts 1 train -graph $gpt $few $alike -graph_lanes 1 -checkpoint_dir cut -steps 2
accepts 4 train -graph $gpt $few $alike -graph_lanes 1 -checkpoint_dir cut -resume -layout_pipeline 4
says "$digest"
accepts 1 eval -graph $gpt $alike -data synthetic -data_samples 40 -initial whole -batch_size 8
says "accuracy "
accepts 1 predict answers.h5 -graph $gpt $alike -data synthetic -data_samples 40 -initial whole -batch_size 8 -output mean_of_parts
accepts 1 export whole folder
strings -n 12 folder/model.safetensors | grep -q models.3.blocks.0.qkv.weight || fail "no names of parts in the export"
refuses 1 "holds another network, 80 differences" eval -graph $gpt -data synthetic -data_samples 40 -initial whole -batch_size 8

# A part has a quarter of the parameters, and so each of four ranks.
memory() { awk '/stage [0-9]+, replica/ { value = $6 * ($7 == "KiB" ? 1 : $7 == "MiB" ? 1024 : 1048576); if (value > most) most = value } END { print int(most) }' out; }
resnet="resnet:depth=18,width=0.25,image=32,classes=10 -optimizer_type adam -batch_size 8 -microbatch_size 4 -partition_leaf 1 -steps 1 -progress none -data synthetic -data_samples 16"
accepts 1 train -graph $resnet
whole=$(memory)
accepts 4 train -graph $resnet -graph_divide 4 -layout_pipeline 4 -graph_lanes 1
part=$(memory)
[ "$((3 * part))" -le "$whole" ] || fail "a part takes $part KiB of memory, the whole $whole"
# Each part is a stage, which waits for the last alone.
accepts 4 train -graph $resnet -graph_divide 4 -layout_pipeline 4 -graph_lanes 1 -batch_size 16 -microbatch_size 2 -schedule_type 1f1b -schedule_view
says "stage   0,   2 in flight"

refuses 1 "-graph_divide 2: bert cannot be divided" info -graph bert -graph_divide 2
refuses 1 "mlp with loss=mse has no probabilities of classes" info -graph mlp:loss=mse -graph_divide 2
refuses 1 "-graph_divide 0: must be from 1 to 256" info -graph mlp -graph_divide 0
echo "no ONNX" >net.onnx
refuses 1 "net.onnx is a file, whose widths are fixed" info -graph net.onnx -graph_divide 2
mkdir llama && echo '{"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 32, "max_position_embeddings": 16, "rms_norm_eps": 1e-6}' >llama/config.json
refuses 1 "is of the family llama, which cannot be divided" info -graph hf:llama -graph_divide 2
exit $((failures > 0))
