#!/bin/sh
# Gradients of rows of several documents beside those of transformers, of the documents one by one. Skipped where there is no
# python3 with torch, transformers, safetensors and h5py.
modules="torch, transformers, safetensors, h5py"
. "${0%/*}/python.sh"
"$found" "$here/packed.py" "$renga" "$mpiexec" "$scratch" ${RENGA_FAMILIES:-llama-1 gpt2-1 gemma2-1} >out 2>&1 ||
  fail "other numbers than those of transformers"
[ -z "${VERBOSE:-}" ] || cat out
finish
