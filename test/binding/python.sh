#!/bin/sh
# The Python package: its prototypes, NumPy on 1, 2 and 4 ranks with the same bits, failures, pip. Skipped where there is no
# python3 with NumPy. RENGA_PYTHON names another one.
top=$(cd "$top_srcdir" && pwd)
build=$(cd "$top_builddir" && pwd)
[ -e "$build/.libs/librenga.so" ] && [ -z "$SANITIZERS" ] || { echo "no shared library, or sanitizers"; exit 77; }
python=
for candidate in "${RENGA_PYTHON:-python3}" /usr/bin/python3; do
  "$candidate" -c 'import numpy' 2>/dev/null && python=$candidate && break
done
[ -n "$python" ] || { echo "no python3 with numpy here"; exit 77; }
limit=${RENGA_TEST_LIMIT:-150}
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1 RENGA_LIBRARY="$build/.libs/librenga.so" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
status=0
"$python" "$top/test/binding/prototypes.py" "$top" || status=1
PYTHONPATH=$top/src/binding/python
export PYTHONPATH
for ranks in 1 2 4; do
  timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n $ranks "$python" "$top/test/binding/api.py" >"$folder/out$ranks" 2>&1 ||
    { echo "api.py on $ranks ranks:"; cat "$folder/out$ranks"; status=1; }
  grep -q digest "$folder/out$ranks" || { echo "api.py on $ranks ranks: no digest"; status=1; }
done
for ranks in 2 4; do
  cmp -s "$folder/out1" "$folder/out$ranks" || { echo "$ranks ranks print something else:"; head -n 20 "$folder/out1" "$folder/out$ranks"; status=1; }
done

# What one rank raises, all raise; different calls; forks.
for ranks in 1 4; do
  timeout 100 "${MPIEXEC:-mpiexec}" -n $ranks "$python" "$top/test/binding/together.py" >"$folder/out" 2>&1 &&
    grep -q digest "$folder/out" || { echo "together.py on $ranks ranks:"; cat "$folder/out"; status=1; }
done

# The program of README.md, as it stands there, with NumPy alone: each rank prints the same loss and values, on any number of ranks.
"$python" - "$top" >"$folder/readme.py" <<'PY' || status=1
import sys
sys.path.insert(0, sys.argv[1] + "/doc/book")
from markdown import Page
programs = [block.text for block in Page(sys.argv[1] + "/README.md").blocks if block.language == "python"]
assert len(programs) == 1 and len(programs[0].splitlines()) <= 10, "one program of at most ten lines is wanted in README.md"
print("import os, sys\nsys.stdout = open(f'{sys.argv[1]}/{os.getpid()}', 'w')")
print(programs[0] + 'print("README:", repr(loss), hash(b"".join(state[name].tobytes() for name in sorted(state))))')
PY
for ranks in 1 2 4; do
  mkdir "$folder/readme$ranks"
  PYTHONHASHSEED=1 timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n $ranks "$python" "$folder/readme.py" "$folder/readme$ranks" >"$folder/out" 2>&1 ||
    { echo "README.md on $ranks ranks:"; cat "$folder/out"; status=1; }
  [ "$(cat "$folder/readme$ranks"/* | grep -c '^README: ')" -eq $ranks ] ||
    { echo "README.md on $ranks ranks: not each prints its loss"; status=1; }
  for out in "$folder/readme$ranks"/*; do
    cmp "$folder"/readme1/* "$out" || { echo "README.md on $ranks ranks prints something else:"; cat "$out"; status=1; }
  done
done

# The example.
timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n 2 "$python" "$top/examples/train.py" -layout_pipeline 2 >"$folder/out" 2>&1
grep -q '9[0-9]\.[0-9] % right, 2 ranks' "$folder/out" || { echo "examples/train.py:"; cat "$folder/out"; status=1; }

# An exception that nobody catches ends the others too, at once; without a word of MPI's.
cat >"$folder/dies.py" <<'PY'
import renga
graph = renga.Graph("mlp:sizes=4-16-3")
if renga.Comm().rank == 1:
    raise KeyError("a bug of rank 1")
renga.Pipeline(graph, batch_size=8)
PY
timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n 2 "$python" "$folder/dies.py" >"$folder/out" 2>&1
code=$?
[ $code -ne 0 ] && [ $code -ne 124 ] && grep -q "a bug of rank 1" "$folder/out" ||
  { echo "an exception of one rank: exit code $code"; cat "$folder/out"; status=1; }

# mpi4py, where it was built with Renga's MPI; and what stands in for it, since Debian's was not.
if "$python" -c 'import mpi4py' 2>/dev/null; then
  timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n 4 "$python" "$top/test/binding/mpi.py" >"$folder/out" 2>&1 ||
    { cat "$folder/out"; status=1; }
  grep "mpi4py" "$folder/out"
else
  echo "skipped: no mpi4py here"
fi
for version in "" "Open MPI v4.1.4"; do
  PYTHONPATH=$top/test/binding/standin:$PYTHONPATH MPI_VERSION_SAID=$version timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n 4 "$python" \
    "$top/test/binding/mpi.py" >"$folder/out" 2>&1 || { cat "$folder/out"; status=1; }
  wanted="^mpi4py 4 ranks"
  [ -z "$version" ] || wanted="skipped: mpi4py uses another MPI than Renga: Open MPI v4.1.4 and "
  grep -q "$wanted" "$folder/out" || { echo "communicators of mpi4py, $version:"; cat "$folder/out"; status=1; }
done

# Modules of torch, on 1, 2 and 4 ranks with the same bits; the network with BatchNormalization is not for 4.
if "$python" -c 'import torch, onnxscript; assert int(torch.__version__.split(".")[1]) >= 9' 2>/dev/null; then
  for ranks in 1 2 4; do
    timeout -k 5 $((2 * limit)) "${MPIEXEC:-mpiexec}" -n $ranks "$python" "$top/test/binding/modules.py" >"$folder/torch$ranks" 2>&1 ||
      { echo "modules.py on $ranks ranks:"; cat "$folder/torch$ranks"; status=1; }
    grep -v '^norm' "$folder/torch$ranks" >"$folder/plain$ranks"
    [ -s "$folder/plain1" ] && cmp -s "$folder/plain1" "$folder/plain$ranks" ||
      { echo "other bits on $ranks ranks:"; cat "$folder"/torch?; status=1; }
  done
else
  echo "skipped: no torch 2.9 and onnxscript here"
fi

# Optimizers of torch.optim.
if "$python" -c 'import torch, onnxscript; assert int(torch.__version__.split(".")[1]) >= 9' 2>/dev/null; then
  for ranks in 1 2 4; do
    timeout -k 5 $((2 * limit)) "${MPIEXEC:-mpiexec}" -n $ranks "$python" "$top/test/binding/optimizers.py" >"$folder/optimizers$ranks" 2>&1 &&
      [ -s "$folder/optimizers1" ] && cmp -s "$folder/optimizers1" "$folder/optimizers$ranks" ||
      { echo "optimizers.py on $ranks ranks:"; cat "$folder/optimizers1" "$folder/optimizers$ranks"; status=1; }
  done
fi

# What a program does to a module of torch between steps.
if "$python" -c 'import torch, onnxscript; assert int(torch.__version__.split(".")[1]) >= 9' 2>/dev/null; then
  timeout 600 "$python" "$top/test/binding/changes.py" >"$folder/out" 2>&1 || { cat "$folder/out"; status=1; }
fi

# A program whose rank is killed is started again by renga run, and ends as one that nothing happened to.
cd "$folder" && "$python" "$top/test/binding/heals.py" alone >out 2>&1 || { echo "heals.py:"; cat out; status=1; }
digest=$(grep digest out)
timeout -k 5 $limit "$build/renga" run -n 2 -launcher "${MPIEXEC:-mpiexec}" -- "$python" "$top/test/binding/heals.py" healed >out 2>&1 ||
  { echo "heals.py under renga run: exit code $?"; cat out; status=1; }
for line in "${digest:-no digest}" "renga run: start 2: 2 ranks, from the checkpoint of step 20" "renga run: the run is complete after 2 starts"; do
  grep -qF "$line" out || { echo "heals.py under renga run does not say \"$line\":"; cat out; status=1; }
done

# A source distribution, installed into a folder.
if "$python" -c 'import setuptools, wheel, pip' 2>/dev/null; then
  cp -r "$top/src/binding/python" "$folder/source" && chmod -R u+w "$folder/source" && cd "$folder/source" &&
    "$python" setup.py -q sdist >"$folder/out" 2>&1 &&
    "$python" -m pip install -q --no-index --no-build-isolation --no-deps --target "$folder/site" dist/renga-*.tar.gz \
      >>"$folder/out" 2>&1 || { echo "pip install:"; cat "$folder/out"; status=1; }
  cd "$folder" && env -u RENGA_LIBRARY PYTHONPATH="$folder/site" "$python" -c '
import renga, sys
assert renga.__file__.startswith(sys.argv[1]), renga.__file__
print("installed:", len(renga.Graph("mlp:sizes=4-16-3")), "nodes")' "$folder/site" >"$folder/out" 2>&1 ||
    { echo "the installed package:"; cat "$folder/out"; status=1; }
else
  echo "skipped: no pip, setuptools and wheel here"
fi
exit $status
