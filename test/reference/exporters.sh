#!/bin/sh
# Networks as PyTorch's exporters write them train to PyTorch's losses with its norms of gradients, or are refused by a sentence.
# Skipped where there is no python3 with torch 2.15, onnxscript and h5py. Arguments: names of networks.
modules='torch, onnxscript, h5py; assert torch.__version__ >= "2.9"'
. "${0%/*}/python.sh"
"$found" "$here/exporters.py" make . "$@" >list || exit 1

trained=
while read -r wish file data options; do
  set -- train -graph "$file.onnx" -data "$data" -data_validation 0 -data_shuffle 0 -batch_size 8 \
    -steps 4 -seed 1 -optimizer_type sgd -optimizer_learning_rate 0.05 -monitor "csv:$file.csv"
  # No word of the options has a blank.
  if [ "$wish" = trained ]; then
    accepts 1 "$@" $options
    trained="$trained $file"
  else
    refuses 1 "export the network with torch.onnx.export(..., dynamo=True, optimize=False)" "$@" $options
  fi
done <list
"$found" "$here/exporters.py" check . $trained >out 2>&1 || fail "other losses or gradients than PyTorch's"
[ -z "${VERBOSE:-}" ] || cat out
finish
