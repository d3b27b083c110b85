#!/bin/sh
# Rows of several documents have the gradients of the documents in rows of their own, on any layout and in any micro-batches.
. "${0%/*}/common.sh"
python=python3
"$python" -c '' 2>/dev/null || exit 77
make="$python $top_srcdir/test/app/huggingface.py"
end='<|end|>'

# Documents: of one line and of several, an empty one, one that is longer than a row, and one without its end.
awk -v end="$end" 'BEGIN {
  print "\nIn the beginning of\nthe in.\n" end "\nOne two three " end "In the" end "\n\n" end
  for (i = 0; i < 9; i++) printf "beginning of In the "
  for (i = 0; i < 12; i++) printf "%s%s", substr("one of the other three", 1 + i, 3 + i % 5), end
  printf "last"
}' >text.txt
set="data text text.txt -sequence 16 -vocabulary 300 -data_document_end $end"
accepts 2 ${set%text.txt*}text.txt padded.h5 ${set#*text.txt}
says "wrote padded.h5: 16 documents in 18 rows of 16 tokens" "91 labels count" "1 documents are longer than a row"
accepts 2 ${set%text.txt*}text.txt packed.h5 ${set#*text.txt} -data_packed
says "wrote packed.h5: 16 documents in"
rows=$(sed -n 's/.*documents in \([0-9]*\) rows.*/\1/p' out)
[ "$rows" -lt 12 ] || fail "$rows rows are not packed"
says "91 labels count"

# gradients RANKS OUT NETWORK DATA ARGUMENT...: one step whose change is the gradient
gradients() {
  on=$1 out=$2
  network=$3 data=$4
  shift 4
  rm -rf steps "$out"
  accepts "$on" train -graph "hf:$network" -data "$data" -data_shuffle 0 -steps 1 -optimizer_type sgd \
    -optimizer_learning_rate 1 -seed 3 -checkpoint_dir steps -parameter_digest -progress none "$@"
  cp out said
  accepts 1 export steps "$out"
  cp said out
}

for network in llama-1 mistral-2 gemma2-1 gpt2-1; do
  $make write $network vocab_size=300 || fail "no folder $network is made"
  gradients 1 padded $network,sequence=16 padded.h5 -batch_size 18 -microbatch_size 18
  gradients 1 packed $network,sequence=16,packed=1 packed.h5 -batch_size "$rows" -microbatch_size 1 -graph_lanes 2
  digest=$(digest)
  $make near padded packed >out 2>&1 || fail "$network: other gradients than of documents one by one"
  gradients 2 packed $network,sequence=16,packed=1 packed.h5 -batch_size "$rows" -microbatch_size 1 -graph_lanes 2 -layout_pipeline 2
  says "$digest"
  gradients 2 packed $network,sequence=16,packed=1 packed.h5 -batch_size "$rows" -microbatch_size 1 -graph_lanes 2 -layout_tensor 2
  says "$digest"
  gradients 2 packed $network,sequence=16,packed=1 packed.h5 -batch_size "$rows" -microbatch_size 2 -graph_token_lanes 2 \
    -layout_context 2
  $make near padded packed >out 2>&1 || fail "$network: other gradients on context ranks"
done

# The network that was trained so is the one without position_ids.
accepts 1 generate -graph hf:gpt2-1,sequence=16 -checkpoint steps -prompt "In the" -tokens 3 -vocabulary_file packed.h5
says "In the"
cp out without
accepts 1 generate -graph hf:gpt2-1,sequence=16,packed=1 -checkpoint steps -prompt "In the" -tokens 3 -vocabulary_file packed.h5 \
  -generate_cache off
equal_files out without "another text with position_ids"

refuses 2 "-data_packed: where do documents end? -data_document_end TEXT" data text text.txt x.h5 -data_packed
refuses 2 "renga data text with -data_document_end needs -vocabulary KINDS" data text text.txt x.h5 -data_document_end "$end"
refuses 2 "documents end with \"three\", which is" data text text.txt x.h5 -data_document_end three \
  -vocabulary_file "$top_srcdir/test/data/tokenizer.json"
refuses 2 "text.txt has 18 rows of documents, which is too few: 18 for training, 0 for validation" \
  ${set%text.txt*}text.txt x.h5 ${set#*text.txt} -data_validation 0.01
refuses 2 "the text that ends documents has no characters" data text text.txt x.h5 -vocabulary 300 -data_document_end ""
$make write bert-1
refuses 2 "hf: packed=1 is for decoders, and bert-1 is of type bert" info -graph hf:bert-1,packed=1
refuses 2 "data set packed.h5 has rows of several documents (position_ids), which the network would take for one" \
  train -graph hf:gpt2-1,sequence=16 -data packed.h5 -steps 1
refuses 2 "data set padded.h5 has no dataset for input position_ids of the network" train -graph hf:gpt2-1,sequence=16,packed=1 -data padded.h5 -steps 1
finish
