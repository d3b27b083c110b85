#!/bin/sh
# Conversations by chat templates beside those of transformers. Skipped where there is no python3 with transformers,
# tokenizers and h5py.
modules="transformers, tokenizers, h5py"
. "${0%/*}/python.sh"
"$found" "$here/chat.py" "$renga" "$scratch" >out 2>&1 || fail "other tokens than those of transformers"
[ -z "${VERBOSE:-}" ] || cat out
finish
