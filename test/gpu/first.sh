#!/bin/sh
# A run on a GPU: builds the module for the card, runs the cuda device's tests with NVIDIA's
# libraries, compares runs with those of the cpu device, times networks, and writes one report.
#
#   test/gpu/first.sh BUILD [REPORT]    BUILD: a folder where Renga is configured and built, with nvcc; or one
#                                       that holds what was built elsewhere: renga, test/cuda/operators,
#                                       test/device/low, src/device/cuda/renga_cuda.so
#   test/gpu/first.sh BUILD -emulated   the same on the emulated runtime of test/cuda, with small networks
#                                       and no times: a test of this script
#
# It goes on after a failure; its last line counts what passed and failed. Up to JOBS tests (4) run at a time.
# PyTorch is timed beside where the python of PYTHON (python3) has it. TIMES: names of the networks to be
# timed, in which * and ? stand for any characters (all of them), as TIMES='GPT-2 1*'.
set -u
if [ $# -eq 0 ] && [ -n "${top_builddir:-}" ]; then # of make check
  [ -n "${CUDA_EMULATED:-}" ] || { echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"; exit 77; }
  set -- "$top_builddir" -emulated
fi
[ $# -ge 1 ] || { sed -n '5,9s/^# *//p' "$0" >&2; exit 2; }
top=$(cd "${0%/*}/../.." && pwd)
build=$(cd "$1" && pwd) || exit 2
emulated=
[ "${2:-}" != -emulated ] || emulated=yes
report=${2:-gpu-report.md}
[ -z "$emulated" ] || report=/dev/stdout
case $report in /*) ;; *) report=$(pwd)/$report ;; esac
renga=$build/renga
mpiexec=${MPIEXEC:-mpiexec}
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export OMP_NUM_THREADS=1
limit=${LIMIT:-600}
jobs=${JOBS:-4}
[ -z "$emulated" ] || jobs=1
started=0

write() { printf '%s\n' "$@" >>"$report"; }

# run NAME COMMAND...: one row of the report, from a folder of its own; beside the others of its group.
run() {
  started=$((started + 1))
  [ $((started % jobs)) -ne 0 ] || wait
  mkdir "$folder/$started"
  (
    cd "$folder/$started" || exit 1
    name=$1
    shift
    from=$(date +%s)
    if "$@" >out 2>&1 </dev/null; then
      echo "| $name | passed in $(($(date +%s) - from)) s |" >row
    else
      echo "| $name | FAILED ($?): $(tail -n 3 out | tr '\n|' '  ' | cut -c1-300) |" >row
    fi
  ) &
}

# rows: those of all that run was given.
rows() {
  wait
  for i in $(seq $started); do cat "$folder/$i/row"; done >rows
  cat rows >>"$report"
  passed=$(grep -c '| passed in' rows)
  failed=$((started - passed))
}

bounded() { timeout -k 5 $limit "$@"; }

# --- the machine and the module
[ -n "$emulated" ] || : >"$report" || exit 1
write "# Renga on a GPU"
if [ -n "$emulated" ]; then
  module=$build/test/cuda/renga_cudaemu.so
  write "The emulated runtime: $(uname -m)"
else
  nvidia-smi >/dev/null 2>&1 || { echo "there is no usable GPU: nvidia-smi says so" >&2; exit 1; }
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  write '```' "$(nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv)" '```'
  module=$build/src/device/cuda/renga_cuda.so
  if [ -f "$build/Makefile" ]; then
    make -C "$build" cuda-module test/cuda/operators test/device/low \
      CUDA_GENCODE="-gencode arch=compute_$capability,code=sm_$capability" >build.log 2>&1 || { tail -n 20 build.log >&2; exit 1; }
  fi
fi
cuda="-device_type cuda -device_cuda_module $module"
[ -z "$emulated" ] || cuda="$cuda -device_cuda_workspace 1"

# --- correctness
write "" "## Tests" "| test | |" "|---|---|"
run "operators against ref" bounded env RENGA_OPTIONS="$cuda" "$mpiexec" -n 1 "$build/test/cuda/operators"
run "16-bit floats" bounded env RENGA_OPTIONS="$cuda" "$mpiexec" -n 1 "$build/test/device/low"

# train FILE RANKS OPTION...: losses into FILE.csv, the digest into FILE.digest.
train() {
  file=$1
  ranks=$2
  shift 2
  rm -f "$file.csv"
  timeout -k 5 $limit "$mpiexec" -n "$ranks" "$renga" train -data synthetic -data_samples 64 -batch_size 8 \
    -microbatch_size 2 -seed 3 -steps 4 -progress none -parameter_digest -monitor "csv:$file.csv" "$@" \
    </dev/null >"$file.log" 2>&1 || { tail -n 3 "$file.log"; return 1; }
  grep 'parameter digest 0x' "$file.log" >"$file.digest"
}

# near A B SHARE: the losses of A.csv and B.csv.
near() {
  cut -d, -f2 "$1.csv" >a.txt
  cut -d, -f2 "$2.csv" | paste -d, a.txt - | awk -F, -v share="$3" '
    NR > 1 { d = $1 - $2; if (d < 0) d = -d; if (!(d <= share * $1)) bad = 1 }
    END { exit bad || NR < 2 }' || { paste -d' ' "$1.csv" "$2.csv"; return 1; }
}

same() { cmp "$1.digest" "$2.digest"; }

# Of one network: as cpu within a share; one rank, stages and replicas have the same bits.
network() {
  graph=$1
  share=$2
  shift 2
  train cpu 1 -graph "$graph" -device_type cpu "$@" && train one 1 -graph "$graph" $cuda "$@" && near cpu one "$share" &&
    train stages 2 -graph "$graph" $cuda -transport_type staged -layout_pipeline 2 "$@" && same one stages &&
    train replicas 2 -graph "$graph" $cuda -transport_type staged -layout_pipeline 1 -layout_data 2 "$@" &&
    same one replicas
}

# Interrupted on cuda, gone on on cpu, and back: near the run that was not.
crossing() {
  train whole 1 -graph "$1" $cuda -steps 6 || return 1
  rm -rf run
  for part in "2 $cuda" "4 -device_type cpu" "6 $cuda"; do
    train part 1 -graph "$1" -checkpoint_dir run -resume -steps $part || return 1
    tail -n +2 part.csv
  done >parts.txt
  { head -n 1 whole.csv; cat parts.txt; } >parts.csv
  near whole parts 1e-4
}

gpt=gpt:layers=2,hidden=32,heads=2,sequence=16,vocabulary=256
run "mlp fp32: cpu's losses, layouts" network mlp:sizes=8-32-32-4 1e-5
run "gpt fp32: cpu's losses, layouts" network $gpt 1e-4
run "gpt bf16: cpu's losses, layouts" network $gpt 1e-2 -precision bf16
run "gpt fp16: cpu's losses, layouts" network $gpt 1e-2 -precision fp16
run "gpt: cuda, cpu, cuda" crossing $gpt
if [ -z "$emulated" ]; then
  run "bert fp32: cpu's losses, layouts" network bert:layers=2,hidden=32,heads=2,sequence=16,vocabulary=128 1e-4
  # Statistics of few numbers, and steps, make differences of the last bit large ones.
  run "resnet fp32: cpu's losses, layouts" network resnet:depth=18,image=32,classes=10 1e-3 -batch_size 32 \
    -microbatch_size 16 -steps 2
fi
rows

# --- times
# seconds NETWORK BATCH MICROBATCH OPTION...: median of the last steps.
seconds() {
  graph=$1
  batch=$2
  micro=$3
  shift 3
  rm -f time.csv
  timeout -k 5 $limit "$mpiexec" -n 1 "$renga" train -graph "$graph" -data synthetic -batch_size "$batch" -microbatch_size "$micro" \
    -steps 12 -optimizer_type adamw -progress none -monitor csv:time.csv $cuda "$@" </dev/null >time.log 2>&1 ||
    { tail -n 1 time.log | cut -c1-160; return 1; }
  tail -n 8 time.csv | cut -d, -f6 | sort -g | sed -n 4p
}

# row NAME NETWORK BATCH MICROBATCH PEER PEERBATCH
row() {
  case $1 in ${TIMES:-*}) ;; *) return ;; esac
  for precision in fp32 bf16; do
    time=$(seconds "$2" "$3" "$4" -precision $precision) || time="FAILED: $time"
    flops=$("$renga" info -graph "$2" 2>/dev/null | awk '/forward FLOPs/ { print $3, $4; exit }')
    eager=- compiled=-
    if "$python" -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null; then
      eager=$("$python" "$top/test/bench/peer.py" "$5" --batch "$6" --steps 10 --device cuda --dtype $precision 2>&1 | sort -g | sed -n 5p)
      compiled=$("$python" "$top/test/bench/peer.py" "$5" --batch "$6" --steps 10 --device cuda --dtype $precision --compile 2>&1 | sort -g | sed -n 5p)
    fi
    write "| $1 | $precision | $3 | $time | $flops | $eager | $compiled |"
  done
}

if [ -z "$emulated" ]; then
  write "" "## Seconds per step" "| network | precision | batch | Renga | forward FLOPs of a sample | PyTorch | compiled |" "|---|---|---|---|---|---|---|"
  row "GPT-2 124M" gpt:layers=12,hidden=768,heads=12,sequence=1024,vocabulary=50304 16 16 gpt2_124m 16
  row "GPT-2 124M, 50257 words" gpt:layers=12,hidden=768,heads=12,sequence=1024,vocabulary=50257 16 16 gpt2_124m 16
  row "GPT-2 350M" gpt:layers=24,hidden=1024,heads=16,sequence=1024,vocabulary=50304 8 8 gpt2_350m 8
  row "GPT-2 1.5B" gpt:layers=48,hidden=1600,heads=25,sequence=1024,vocabulary=50304 4 4 gpt2_1500m 4
  row "BERT-large" bert:layers=24,hidden=1024,heads=16,sequence=512 16 16 bert_large 16
  row "ResNet-50" resnet:depth=50,image=224,classes=1000 64 64 resnet50 64
fi
write "" "$passed passed, $failed failed"
[ "$report" = /dev/stdout ] || { echo "$report: $passed passed, $failed failed"; }
[ $failed -eq 0 ]
