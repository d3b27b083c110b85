#!/bin/sh
# Folders of Hugging Face beside transformers: scores, gradients, steps of AdamW, layouts, and the way back. Skipped where
# there is no python3 with torch, transformers, safetensors and h5py.
cd "$(dirname "$0")" && here=$(pwd) && cd - >/dev/null || exit 1
top_builddir=${top_builddir:-$(pwd)}
. "$here/../app/common.sh"
python=${PYTHON:-python3}
for candidate in "$python" /usr/bin/python3; do
  "$candidate" -c 'import torch, transformers, safetensors, h5py' 2>/dev/null && found=$candidate && break
done
[ -n "${found:-}" ] || exit 77
"$found" "$here/huggingface.py" "$renga" "$mpiexec" "$scratch" ${RENGA_FAMILIES:-llama-2 gpt2-1 gemma3-1} >out 2>&1 ||
  fail "other numbers than those of transformers"
[ -z "${VERBOSE:-}" ] || cat out
finish
