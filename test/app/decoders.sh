#!/bin/sh
# Text of each family of decoders of Hugging Face, and of a file: with caches of keys and values, on one rank, in stages and
# on tensor-parallel ranks, it is that of whole sequences.
# TEST ranks: 2
. "${0%/*}/common.sh"
python=python3
"$python" -c '' 2>/dev/null || exit 77
make="$python $top_srcdir/test/app/huggingface.py"

# compare GRAPH CHECKPOINT PROMPT...: by chance among many tokens, which small differences of scores would change
compare() {
  graph=$1 folder=$2
  shift 2
  write="generate -graph $graph -checkpoint $folder -tokens 9 -temperature 2 -generate_top_k 30"
  accepts 1 $write "$@" -generate_cache off
  cp out whole
  for layout in "1" "2 -layout_pipeline 2" "2 -graph_lanes 2 -layout_tensor 2"; do
    accepts ${layout%% *} $write "$@" -generate_cache on $(echo "$layout" | cut -s -d ' ' -f 2-)
    equal_files out whole "$graph writes something else with caches ($layout)"
  done
}

families=0
for network in $($make list); do
  case $network in *bert* | vit* | *-[3-9]) continue ;; esac
  case $network in *-1) families=$((families + 1)) ;; llama* | qwen3* | gemma2* | phi3*) ;; *) continue ;; esac
  $make write $network || fail "no folder $network is made"
  case $network in
    t5*) compare hf:$network,sequence=12,target=9 $network -prompt_tokens '5,6;7,8,9,10,1' ;;
    whisper*)
      accepts 1 data npy $network/*.npy $network/data.h5
      compare hf:$network,target=12 $network -prompt_tokens 7,9 -data $network/data.h5
      ;;
    *) compare hf:$network,sequence=14 $network -prompt_tokens '1,2,3;7' ;;
  esac
done
[ $families -ge 16 ] || fail "$families families"
onnx=$top_srcdir/test/reference/networks/gpt_export.onnx
accepts 1 train -graph "$onnx" -data synthetic -data_samples 4 -batch_size 4 -steps 1 -progress none -checkpoint_dir o
compare "$onnx" o -prompt_tokens '1,2,3;7'

# 16 bits: with caches of float32. What attends to all tokens has none.
gpt=gpt:layers=2,hidden=16,heads=2,sequence=16,vocabulary=40
accepts 1 train -graph $gpt -data synthetic -data_samples 4 -batch_size 4 -steps 1 -progress none -checkpoint_dir g
accepts 1 generate -graph $gpt -checkpoint g -prompt_tokens 1,2 -tokens 9 -precision bf16 -generate_cache on -temperature 0
cp out whole
accepts 2 generate -graph $gpt -checkpoint g -prompt_tokens 1,2 -tokens 9 -precision bf16 -generate_cache on -temperature 0 \
  -layout_pipeline 2
equal_files out whole "stages differ in 16 bits"
bert=bert:layers=1,hidden=16,heads=2,sequence=16,vocabulary=40
accepts 1 train -graph $bert -data synthetic -data_samples 4 -batch_size 4 -steps 1 -progress none -checkpoint_dir b
refuses 2 "-generate_cache on: the network cannot be made token by token: node" generate -graph $bert -checkpoint b -prompt_tokens 1,2 \
  -tokens 4 -generate_cache on
finish
