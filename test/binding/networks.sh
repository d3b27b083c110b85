#!/bin/sh
# Networks of torch through renga.Module beside torch, on 1, 2 and 4 ranks with the same bits: those of RaNNC's own tests in
# kind, or with RENGA_NETWORKS=libraries those of transformers, torchvision and timm (ten minutes). Skipped where there is no torch.
# Arguments: names of networks.
top=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${top_builddir:-$top/build}" && pwd)
[ -e "$build/.libs/librenga.so" ] && [ -z "$SANITIZERS" ] || { echo "no shared library, or sanitizers"; exit 77; }
python=
for candidate in "${RENGA_PYTHON:-python3}" /usr/bin/python3; do
  "$candidate" -c 'import torch, onnxscript; assert [int(n) for n in torch.__version__.split(".")[:2]] >= [2, 9]' 2>/dev/null &&
    python=$candidate && break
done
[ -n "$python" ] || { echo "skipped: no python3 with torch 2.9 and onnxscript here"; exit 77; }
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1 TRANSFORMERS_VERBOSITY=error RENGA_LIBRARY="$build/.libs/librenga.so" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTHONPATH=$top/src/binding/python
export PYTHONPATH
[ $# -gt 0 ] || set -- ${RENGA_NETWORKS:-small}
status=0
mkdir "$folder/kept"
for ranks in 1 2 4; do
  timeout "${RENGA_NETWORKS_SECONDS:-1200}" "${MPIEXEC:-mpiexec}" -n $ranks "$python" "$top/test/binding/networks/train.py" \
    "$folder/kept" "$@" >"$folder/out$ranks" 2>&1 || { echo "$ranks ranks:"; grep WRONG "$folder/out$ranks" || cat "$folder/out$ranks"; status=1; }
  [ -s "$folder/out1" ] && cmp -s "$folder/out1" "$folder/out$ranks" ||
    { echo "$ranks ranks print something else:"; diff "$folder/out1" "$folder/out$ranks" | head -n 40; status=1; }
done
cat "$folder/out1"
exit $status
