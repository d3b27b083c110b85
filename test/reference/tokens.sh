#!/bin/sh
# Tokens of tokenizer.json of many kinds beside those of the library tokenizers. Skipped where there is no python3 with
# tokenizers and h5py.
modules="tokenizers, h5py"
. "${0%/*}/python.sh"
"$found" "$here/tokens.py" "$renga" "$scratch" >out 2>&1 || fail "other tokens than those of tokenizers"
[ -z "${VERBOSE:-}" ] || cat out
finish
