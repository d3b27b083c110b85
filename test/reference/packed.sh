#!/bin/sh
# Gradients of rows of several documents beside those of transformers, of the documents one by one. Skipped where there is no
# python3 with torch, transformers, safetensors and h5py.
cd "$(dirname "$0")" && here=$(pwd) && cd - >/dev/null || exit 1
top_builddir=${top_builddir:-$(pwd)}
. "$here/../app/common.sh"
python=${PYTHON:-python3}
for candidate in "$python" /usr/bin/python3; do
  "$candidate" -c 'import torch, transformers, safetensors, h5py' 2>/dev/null && found=$candidate && break
done
[ -n "${found:-}" ] || exit 77
"$found" "$here/packed.py" "$renga" "$mpiexec" "$scratch" ${RENGA_FAMILIES:-llama-1 gpt2-1 gemma2-1} >out 2>&1 ||
  fail "other numbers than those of transformers"
[ -z "${VERBOSE:-}" ] || cat out
finish
