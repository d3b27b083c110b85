#!/bin/sh
# A run on a GPU: the cuda device's tests with NVIDIA's libraries, runs beside those of the cpu device, NCCL
# between ranks of one GPU, kernels beside the card's ceilings, steps beside PyTorch's, and one report.
#
#   test/gpu/first.sh BUILD [REPORT]    BUILD: a pack of test/gpu/pack.sh, from which nothing is compiled; or a
#                                       folder where Renga is configured and built, with nvcc
#   test/gpu/first.sh BUILD -emulated   the same on the emulated runtime of test/cuda, with small networks
#                                       and no times: a test of this script
#
# Each step has a limit of its own, and its row is in the report as soon as it ends. Nothing begins after
# MINUTES (60): the steps stand in the order of their worth, so that ten minutes are enough for most. It goes on
# after a failure; its last line counts. Up to JOBS tests (4) run at a time. PyTorch is timed where the python of
# PYTHON (python3) has it. TIMES: names of the networks to be timed, in which * and ? stand for any characters
# (all of them), as TIMES='GPT-2 1*'. REPEATS (20): runs that must have the same bits.
set -u
if [ $# -eq 0 ] && [ -n "${top_builddir:-}" ]; then # of make check
  [ -n "${CUDA_EMULATED:-}" ] || { echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"; exit 77; }
  set -- "$top_builddir" -emulated
fi
[ $# -ge 1 ] || { sed -n '5,8s/^# *//p' "$0" >&2; exit 2; }
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
jobs=${JOBS:-4}
[ -z "$emulated" ] || jobs=1
started=0
over=$(($(date +%s) + 60 * ${MINUTES:-60}))

write() { printf '%s\n' "$@" >>"$report"; }

# The step's limit is at most so many seconds, and what is left; fails where nothing is.
allow() {
  limit=$((over - $(date +%s)))
  [ $limit -ge 5 ] || return 1
  [ -n "$emulated" ] || [ $limit -le "$1" ] || limit=$1
}

# run SECONDS NAME COMMAND...: a row of the report, from a folder of its own; beside the others of its group.
run() {
  started=$((started + 1))
  [ $((started % jobs)) -ne 0 ] || wait
  mkdir "$folder/$started"
  (
    cd "$folder/$started" || exit 1
    allow "$1" || { echo "| $2 | not begun: the time is over |" | tee row >>"$report"; exit; }
    name=$2
    shift 2
    from=$(date +%s)
    if "$@" >out 2>&1 </dev/null; then
      echo "| $name | passed in $(($(date +%s) - from)) s |" >row
    else
      echo "| $name | FAILED ($?): $(tail -n 3 out | tr '\n|' '  ' | cut -c1-300) |" >row
    fi
    cat row >>"$report"
  ) &
}

# How many rows so far say this.
count() { cat "$folder"/*/row | grep -c "^| [^|]* | $1" || :; }

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
  # NVIDIA's libraries, where the loader does not find them: those of PyTorch's packages.
  places=$("$python" -c 'import glob, os, sysconfig
found = glob.glob(sysconfig.get_path("purelib") + "/nvidia/**/lib*.so.*", recursive=True)
print(":".join(sorted({os.path.dirname(f) for f in found if os.path.basename(f).startswith(("libcublasLt.", "libcudnn.", "libnccl."))})))' 2>/dev/null)
  [ ! -d "$build/lib" ] || export LD_LIBRARY_PATH="$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}${places:+:$places}"
  export PATH="$PATH:/usr/local/cuda/bin"
  [ ! -x "$build/bin/mpiexec" ] || mpiexec=${MPIEXEC:-$build/bin/mpiexec}
  if [ -f "$build/Makefile" ]; then
    make -C "$build" cuda-module test/cuda/operators test/device/low test/bench/kernels \
      CUDA_GENCODE="-gencode arch=compute_$capability,code=sm_$capability" >build.log 2>&1 || { tail -n 20 build.log >&2; exit 1; }
  fi
fi
cuda="-device_type cuda -device_cuda_module $module"
[ -z "$emulated" ] || cuda="$cuda -device_cuda_workspace 1"

write '```' "$(RENGA_OPTIONS="$cuda" timeout -k 5 60 "$renga" info -device 2>&1 </dev/null | sed -n '/computed/q; p')" '```'

# --- correctness
write "" "## Tests" "| test | |" "|---|---|"
run 120 "operators against ref, own kernels" bounded env RENGA_OPTIONS="$cuda -device_cudnn off -device_images channels_last" "$mpiexec" -n 1 "$build/test/cuda/operators"
# EMU_CUDNN tells the program that cuDNN computes; NVIDIA's does not look at it.
run 120 "operators against ref, cuDNN" bounded env EMU_CUDNN=9.19.0 RENGA_OPTIONS="$cuda -device_images channels_last" "$mpiexec" -n 1 "$build/test/cuda/operators"
run 60 "16-bit floats" bounded env RENGA_OPTIONS="$cuda" "$mpiexec" -n 1 "$build/test/device/low"

through= # of each rank: a script that runs it
# train FILE RANKS OPTION...: losses into FILE.csv, the digest into FILE.digest.
train() {
  file=$1
  ranks=$2
  shift 2
  rm -f "$file.csv"
  timeout -k 5 $limit "$mpiexec" -n "$ranks" $through "$renga" train -data synthetic -data_samples 64 -batch_size 8 \
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

# So many runs have the same bits.
repeats() { # runs, argument...
  runs=$1
  shift
  for i in $(seq "$runs"); do
    train again 1 -precision bf16 $cuda "$@" || return 1
    [ "$i" -gt 1 ] || cp again.digest first.digest
    same again first || return 1
  done
}

# As others see a machine, ranks of one GPU are on several: NCCL goes between them by sockets.
apart() {
  cat >apart.sh <<'END'
#!/bin/sh
export NCCL_HOSTID=rank${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-}}} NCCL_SOCKET_IFNAME=lo
echo $$ >"process.$NCCL_HOSTID"
exec "$@"
END
  chmod +x apart.sh
}

# RANKS: bits by NCCL are those of messages through the host, in stages and replicas, also without graphs.
nccl() {
  apart
  for layout in "-layout_pipeline $1" "-layout_pipeline 1 -layout_data $1" "-layout_pipeline 1 -layout_data $1 -device_graphs off"; do
    through=
    train staged "$1" -graph $gpt $cuda -transport_type staged $layout || return 1
    through=./apart.sh
    train nccl "$1" -graph $gpt $cuda -transport_type nccl $layout && same staged nccl || return 1
  done
  train unordered "$1" -graph $gpt $cuda -transport_type nccl -layout_pipeline 1 -layout_data "$1" \
    -pipeline_reduction unordered && near staged unordered 1e-4
}

# A rank stands still: the other one says so, and both end.
halted() {
  apart
  timeout -k 5 $limit "$mpiexec" -n 2 ./apart.sh "$renga" train -graph $gpt -data synthetic -data_samples 64 -batch_size 8 \
    -microbatch_size 2 -steps 1000000 -progress none $cuda -transport_type nccl -layout_pipeline 2 -timeout 10 -monitor csv:steps.csv \
    >halted.log 2>&1 </dev/null &
  for i in $(seq 60); do [ "$(wc -l 2>/dev/null <steps.csv || echo 0)" -lt 3 ] || break; sleep 1; done
  kill -STOP "$(cat process.rank1)" || return 1
  for i in $(seq 60); do ! grep -q "nothing moved for 10 s" halted.log || break; sleep 1; done
  kill -KILL "$(cat process.rank1)"
  wait
  grep "nothing moved for 10 s" halted.log || { tail -n 3 halted.log; return 1; }
}

gpt=gpt:layers=2,hidden=32,heads=2,sequence=16,vocabulary=256
run 90 "mlp fp32: cpu's losses, layouts" network mlp:sizes=8-32-32-4 1e-5
run 90 "gpt fp32: cpu's losses, layouts" network $gpt 1e-4
run 90 "gpt bf16: cpu's losses, layouts" network $gpt 1e-2 -precision bf16
run 90 "gpt fp16: cpu's losses, layouts" network $gpt 1e-2 -precision fp16
run 90 "gpt: cuda, cpu, cuda" crossing $gpt
if [ -z "$emulated" ]; then
  run 90 "bert fp32: cpu's losses, layouts" network bert:layers=2,hidden=32,heads=2,sequence=16,vocabulary=128 1e-4
  # Statistics of few numbers, and steps, make differences of the last bit large ones.
  run 90 "resnet fp32: cpu's losses, layouts" network resnet:depth=18,image=32,classes=10 1e-3 -batch_size 32 \
    -microbatch_size 16 -steps 2
  wide=gpt:layers=2,hidden=256,heads=4,sequence=200,vocabulary=5003 # heads of 64 in 16 bits take tensor cores
  run 120 "bits of ${REPEATS:-20} runs" repeats "${REPEATS:-20}" -graph $wide
  run 120 "bits of ${REPEATS:-20} runs, convolutions" repeats "${REPEATS:-20}" -graph resnet:depth=18,image=32,classes=10 -steps 2
  run 120 "gpt bf16, wide heads: cpu's losses, layouts" network $wide 1e-2 -precision bf16
fi
wait

# --- times
# seconds NETWORK BATCH MICROBATCH OPTION...: median of the last steps.
seconds() {
  graph=$1
  batch=$2
  micro=$3
  shift 3
  rm -f time.csv
  timeout -k 5 $limit "$mpiexec" -n 1 "$renga" train -graph "$graph" -data synthetic -batch_size "$batch" -microbatch_size "$micro" \
    -steps 12 -optimizer_type adamw -progress none -monitor csv:time.csv -device_view ascii:engines.txt $cuda "$@" </dev/null >time.log 2>&1 ||
    { tail -n 1 time.log | cut -c1-160; return 1; }
  tail -n 8 time.csv | cut -d, -f6 | sort -g | sed -n 4p
}

# row NAME NETWORK BATCH OPTION...
row() {
  name=$1
  graph=$2
  samples=$3
  shift 3
  case $name in ${TIMES:-*}) ;; *) return ;; esac
  allow 60 || { write "| $name | $* | not begun: the time is over | |"; return; }
  time=$(seconds "$graph" "$samples" "$samples" "$@") || time="FAILED: $time"
  flops=$("$renga" info -graph "$graph" 2>/dev/null | awk '/forward FLOPs/ { print $3, $4; exit }')
  write "| $name, $samples | $* | $time | $flops |"
  # Engines of cuDNN, and which are not used.
  { grep "^    [a-z].*: \(engine\|an own\)" engines.txt; grep -o "engine [0-9]* of cuDNN.*" time.log; } 2>/dev/null | sed "s/^ */$name: /" >>all-engines.txt
}

# peer NAME NETWORK BATCH PRECISION FORMS: of PyTorch, all forms in one process.
peer() {
  case $1 in ${TIMES:-*}) ;; *) return ;; esac
  allow 150 || { write "| $1, $3 | $4 | | not begun: the time is over |"; return; }
  bounded "$python" "$top/test/bench/peer.py" "$2" --batch "$3" --steps 10 --device cuda --dtype "$4" --each "$5" 2>/dev/null </dev/null |
    while read -r form time; do write "| $1, $3 | $4 | $form | $time |"; done
}

# table OPTION...: kernels beside ceilings.
table() {
  allow 120 || return
  write "" '```'
  bounded "$mpiexec" -n 1 "$build/test/bench/kernels" "$@" $cuda </dev/null 2>&1 | cut -c1-160 >>"$report"
  write '```'
}

if [ -z "$emulated" ]; then
  write "" "## Seconds per step" "| network, samples | options | Renga | forward FLOPs of a sample |" "|---|---|---|---|"
  gpt2=layers=12,hidden=768,heads=12,sequence=1024
  bert=bert:layers=24,hidden=1024,heads=16,sequence=512
  row "GPT-2 124M" gpt:$gpt2,vocabulary=50304 16 -precision bf16
  row "BERT-large" $bert 16 -precision bf16
  row "ResNet-50" resnet:depth=50,image=224,classes=1000 64 -precision bf16
  row "GPT-2 124M, own kernels" gpt:$gpt2,vocabulary=50304 16 -precision bf16 -device_cudnn off
  row "BERT-large, own kernels" $bert 16 -precision bf16 -device_cudnn off
  row "ResNet-50, own kernels" resnet:depth=50,image=224,classes=1000 64 -precision bf16 -device_cudnn off
  row "GPT-2 350M" gpt:layers=24,hidden=1024,heads=16,sequence=1024,vocabulary=50304 8 -precision bf16
  row "GPT-2 124M, 50257 words" gpt:$gpt2,vocabulary=50257 16 -precision bf16
  row "GPT-2 124M, no graphs" gpt:$gpt2,vocabulary=50304 16 -precision bf16 -device_graphs off
  row "BERT-large, no padding" $bert,padding=0 16 -precision bf16
  row "GPT-2 124M" gpt:$gpt2,vocabulary=50304 16 -precision fp32
  write "" "## Engines of cuDNN" '```' "$(cut -c1-160 all-engines.txt)" '```'
  write "" "## Kernels" "The first line after the device has the card's ceilings."
  table gpt2_124m bert_large resnet50 -precision bf16
  table resnet50 -precision bf16 -device_cudnn off
  if "$python" -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null; then
    write "" "## PyTorch" "| network, samples | precision | form | seconds |" "|---|---|---|---|"
    peer "GPT-2 124M" gpt2_124m 16 bf16 eager,compiled,cudnn
    peer "BERT-large" bert_large 16 bf16 eager,compiled
    peer "ResNet-50" resnet50 64 bf16 eager,compiled
    peer "GPT-2 350M" gpt2_350m 8 bf16 compiled
  fi
fi

# --- ranks of one GPU, and NVIDIA's own checks
jobs=1
write "" "## NCCL and checks" "| test | |" "|---|---|"
run 150 "NCCL, 2 ranks of one GPU: staged's bits" nccl 2
wait
if [ -z "$emulated" ]; then
  run 200 "NCCL, 4 ranks of one GPU: staged's bits" nccl 4
  wait
  run 150 "NCCL, a rank stands still" halted
  wait
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
      run 90 "compute-sanitizer, $tool, 16-bit floats" bounded env RENGA_OPTIONS="$cuda" \
        compute-sanitizer --tool $tool --error-exitcode 9 "$build/test/device/low"
      wait
    done
  fi
  write "" "## If time is left" "| network, samples | options, or precision | seconds, or form | |" "|---|---|---|---|"
  row "GPT-2 1.5B" gpt:layers=48,hidden=1600,heads=25,sequence=1024,vocabulary=50304 4 -precision bf16
  peer "GPT-2 124M" gpt2_124m 16 bf16 autotuned
  table gpt2_124m -precision fp32
fi
passed=$(count "passed in")
left=$(count "not begun")
failed=$((started - passed - left))
write "" "$passed passed, $failed failed, $left not begun"
[ "$report" = /dev/stdout ] || { echo "$report: $passed passed, $failed failed, $left not begun"; }
[ $failed -eq 0 ]
