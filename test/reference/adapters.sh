#!/bin/sh
# Adapters beside peft: losses and factors of steps of AdamW, the folder that comes back, merged weights. Skipped where there
# is no python3 with torch, transformers, peft, safetensors and h5py.
modules="torch, transformers, peft, safetensors, h5py"
. "${0%/*}/python.sh"
"$found" "$here/adapters.py" "$renga" "$mpiexec" "$scratch" ${RENGA_FAMILIES:-llama-1 gpt2-1} >out 2>&1 || fail "other numbers than those of peft"
[ -z "${VERBOSE:-}" ] || cat out
finish
