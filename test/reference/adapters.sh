#!/bin/sh
# Adapters beside peft: losses and factors of steps of AdamW, the folder that comes back, merged weights. Skipped where there
# is no python3 with torch, transformers, peft, safetensors and h5py.
cd "$(dirname "$0")" && here=$(pwd) && cd - >/dev/null || exit 1
top_builddir=${top_builddir:-$(pwd)}
. "$here/../app/common.sh"
python=${PYTHON:-python3}
for candidate in "$python" /usr/bin/python3; do
  "$candidate" -c 'import torch, transformers, peft, safetensors, h5py' 2>/dev/null && found=$candidate && break
done
[ -n "${found:-}" ] || exit 77
"$found" "$here/adapters.py" "$renga" "$mpiexec" "$scratch" ${RENGA_FAMILIES:-llama-1 gpt2-1} >out 2>&1 || fail "other numbers than those of peft"
[ -z "${VERBOSE:-}" ] || cat out
finish
