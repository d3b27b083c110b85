#!/bin/sh
# Text of folders of Hugging Face beside that of transformers. Skipped where there is no python3 with torch, transformers,
# safetensors and h5py.
modules="torch, transformers, safetensors, h5py"
. "${0%/*}/python.sh"
"$found" "$here/generation.py" "$renga" "$mpiexec" "$scratch" ${RENGA_FAMILIES:-llama-2 t5-2 whisper-1} >out 2>&1 ||
  fail "another text than that of transformers"
[ -z "${VERBOSE:-}" ] || cat out
finish
