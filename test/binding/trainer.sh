#!/bin/sh
# renga.from_pretrained and renga.Trainer: the numbers and the folders of renga train and renga export, with NumPy alone.
. "${0%/*}/../app/common.sh"
[ -e "$top_builddir/.libs/librenga.so" ] && [ -z "${SANITIZERS:-}" ] || { echo "no shared library, or sanitizers"; exit 77; }
python=
for candidate in "${RENGA_PYTHON:-python3}" /usr/bin/python3; do
  "$candidate" -c 'import numpy' 2>/dev/null && python=$candidate && break
done
[ -n "$python" ] || { echo "no python3 with numpy here"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 RENGA_LIBRARY="$top_builddir/.libs/librenga.so" OPENBLAS_NUM_THREADS=1 PYTHONPATH="$top_srcdir/src/binding/python"

"$python" "$top_srcdir/test/app/huggingface.py" write llama-1 || fail "no folder is made"
accepts 1 data npy llama-1/tokens.npy llama-1/labels.npy data.h5
accepts 2 train -graph hf:llama-1,sequence=12 -initial llama-1 -data data.h5 -steps 6 -batch_size 5 -microbatch_size 1 -partition_leaf 1 -seed 1 \
  -optimizer_learning_rate 1e-3 -optimizer_schedule cosine -layout_pipeline 2 -graph_lanes 1 -checkpoint_dir run -progress none -parameter_digest
digest=$(digest)
digest=${digest##*0x}
accepts 1 export run exported
for ranks in 1 2; do
  timeout -k 5 $limit "$mpiexec" -n $ranks "$python" "$top_srcdir/test/binding/trainer.py" >out 2>&1 || fail "trainer.py on $ranks ranks"
  latest="trainer.py on $ranks ranks"
  for line in "file ${digest%% *}" "arrays ${digest%% *}" "resumed ${digest%% *}"; do says "$line"; done
  for way in file arrays resumed; do
    equal_files "exported/model.safetensors" "$way-$ranks/model.safetensors" "other numbers than of renga export"
    equal_files "exported/config.json" "$way-$ranks/config.json" "another config.json"
  done
done

# The example, with a small folder of that name.
"$python" - <<'PY' || fail "no data of the example"
import numpy as np
words = np.random.default_rng(1).integers(0, 32, (40, 129))
np.save("tokens.npy", words[:, :-1])
np.save("labels.npy", words[:, 1:])
PY
accepts 1 data npy tokens.npy labels.npy llama.h5
cp -r llama-1 Llama-3.2-1B
timeout -k 5 $limit "$mpiexec" -n 2 "$python" "$top_srcdir/examples/pretrained.py" >out 2>&1 || fail "examples/pretrained.py"
equal_files Llama-3.2-1B/config.json Llama-3.2-1B-trained/config.json "another config.json of the example"
[ -e checkpoints/step_000000200.h5 ] || fail "no checkpoint of the example"
exit $((failures > 0))
