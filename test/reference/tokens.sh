#!/bin/sh
# Tokens of tokenizer.json of many kinds beside those of the library tokenizers. Skipped where there is no python3 with
# tokenizers and h5py.
cd "$(dirname "$0")" && here=$(pwd) && cd - >/dev/null || exit 1
top_builddir=${top_builddir:-$(pwd)}
. "$here/../app/common.sh"
python=${PYTHON:-python3}
for candidate in "$python" /usr/bin/python3; do
  "$candidate" -c 'import tokenizers, h5py' 2>/dev/null && found=$candidate && break
done
[ -n "${found:-}" ] || exit 77
"$found" "$here/tokens.py" "$renga" "$scratch" >out 2>&1 || fail "other tokens than those of tokenizers"
[ -z "${VERBOSE:-}" ] || cat out
finish
