#!/bin/sh
# Divided networks have PyTorch's loss and gradients. Skipped where there is no python3 with torch and h5py.
modules="torch, h5py"
. "${0%/*}/python.sh"
[ -e "$top_builddir/.libs/librenga.so" ] && [ -z "${SANITIZERS:-}" ] || { echo "no shared library, or sanitizers"; exit 77; }
"$found" "$top_srcdir/test/app/huggingface.py" write vit-1 || fail "no folder is made"
PYTHONDONTWRITEBYTECODE=1 RENGA_LIBRARY="$top_builddir/.libs/librenga.so" PYTHONPATH="$top_srcdir/src/binding/python" \
  timeout -k 5 $limit "$found" "$top_srcdir/test/reference/divided.py" >out 2>&1 || fail "other losses or gradients than PyTorch's"
exit $((failures > 0))
