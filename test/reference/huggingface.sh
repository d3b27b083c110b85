#!/bin/sh
# Folders of Hugging Face beside transformers: scores, gradients, steps of AdamW, layouts, and the way back. Skipped where
# there is no python3 with torch, transformers, safetensors and h5py.
modules="torch, transformers, safetensors, h5py"
. "${0%/*}/python.sh"
"$found" "$here/huggingface.py" "$renga" "$mpiexec" "$scratch" ${RENGA_FAMILIES:-llama-2 gpt2-1 gemma3-1 whisper-2} >out 2>&1 ||
  fail "other numbers than those of transformers"
[ -z "${VERBOSE:-}" ] || cat out
finish
