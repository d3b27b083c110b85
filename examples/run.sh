#!/bin/sh
# The examples run as their comments say, on several numbers of ranks and layouts.
networks=$(cd "${top_srcdir:-${0%/*}/..}/test/reference/networks" && pwd) || exit 1
programs=$(cd "${top_builddir:-.}/examples" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# expect TEXT RANKS PROGRAM ARGUMENTS…: it ends with success and prints the text.
expect() {
  text=$1 ranks=$2
  shift 2
  OMP_NUM_THREADS=1 timeout -k 5 "${RENGA_TEST_LIMIT:-150}" "${MPIEXEC:-mpiexec}" -n "$ranks" "$@" >"$work/out" 2>&1
  code=$?
  if [ $code -ne 0 ] || ! grep -q "$text" "$work/out"; then
    echo "$* on $ranks ranks: exit code $code, no \"$text\" in:"
    cat "$work/out"
    failures=$((failures + 1))
  fi
}
# fails TEXT RANKS PROGRAM ARGUMENTS…: it ends without success and says so.
fails() {
  text=$1 ranks=$2
  shift 2
  OMP_NUM_THREADS=1 timeout -k 5 "${RENGA_TEST_LIMIT:-150}" "${MPIEXEC:-mpiexec}" -n "$ranks" "$@" >"$work/out" 2>&1 && echo "$* succeeds" && failures=$((failures + 1))
  grep -q "$text" "$work/out" || { cat "$work/out"; failures=$((failures + 1)); }
}

expect 'off by [0-9.]* % of' 2 "$programs/surrogate"
expect 'off by [0-9.]* % of' 4 "$programs/surrogate" -surrogate_trainers 2 -layout_pipeline 2 -surrogate_rounds 60
fails 'there must be a solver' 1 "$programs/surrogate"
expect 'best: -optimizer_learning_rate' 2 "$programs/sweep"
expect 'best: -optimizer_learning_rate 0.1$' 4 "$programs/sweep" -sweep_rates 0.1,0.00001 -layout_pipeline 2
fails 'cannot be divided into 2 equal groups' 3 "$programs/sweep"
expect 'of a frozen one: 0$' 1 "$programs/finetune" -finetune_network "$networks/bert_export.onnx" -data synthetic \
  -finetune_frozen 'tokens*,layers.0*' -finetune_steps 3
expect "checkpoint $work/tuned/step_000000003.h5" 2 "$programs/finetune" -finetune_network "$networks/ncf_export.onnx" -data synthetic \
  -finetune_frozen 'user1*' -finetune_steps 3 -layout_pipeline 2 -checkpoint_dir "$work/tuned"
fails 'says what to train further' 2 "$programs/finetune" -data synthetic
[ $failures -eq 0 ]
