#!/bin/sh
# All that test/gpu/first.sh needs, built where there is no GPU, so that nothing is compiled beside one.
#
#   test/gpu/pack.sh BUILD PACK [CAPABILITY...]   BUILD: a folder where Renga is configured, with nvcc;
#                                                 PACK: the folder that is made, and PACK.tar.xz beside it;
#                                                 CAPABILITY: of the cards, 80 90, none: those of NVIDIA's data centres
#   sh PACK/test/gpu/first.sh PACK [REPORT]       on the card's machine
#
# The pack holds programs, the cuda module with machine code for the cards, libraries, and MPICH's launcher
# where that is the MPI. The card's machine has the driver, glibc, cuBLASLt and NCCL, of its CUDA or of its PyTorch.
set -eu
if [ $# -eq 0 ] && [ -n "${top_builddir:-}" ]; then # of make check: first.sh runs on the emulated runtime from a pack
  [ -n "${CUDA_EMULATED:-}" ] || { echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"; exit 77; }
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  EMULATED=yes sh "$0" "$top_builddir" "$folder/pack" >"$folder/made"
  RENGA_OPTIONS="-device_type cuda -device_cuda_module $folder/pack/test/cuda/renga_cudaemu.so" \
    LD_LIBRARY_PATH=$folder/pack/lib timeout 100 "$folder/pack/bin/mpiexec" -n 2 "$folder/pack/renga" info -device >"$folder/out" 2>&1 ||
    { cat "$folder/out"; exit 1; }
  grep -q "emulated CUDA" "$folder/out" || { cat "$folder/out"; exit 1; }
  LD_LIBRARY_PATH=$folder/pack/lib ldd "$folder/pack/renga" | awk -v pack="$folder/pack/" '
    /not found/ || $3 ~ "^/" && index($3, pack) != 1 && $1 !~ "^(libc|libm|libdl|librt|libpthread|libresolv)[.]so" { print; bad = 1 } END { exit bad }'
  exit
fi
[ $# -ge 2 ] || { sed -n '4,7s/^# *//p' "$0" >&2; exit 2; }
top=$(cd "${0%/*}/../.." && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
pack=$(cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- 80 90
programs="renga test/cuda/operators test/device/low test/bench/kernels"
module=src/device/cuda/renga_cuda.so
[ -z "${EMULATED:-}" ] || module=test/cuda/renga_cudaemu.so programs="renga test/cuda/operators test/device/low"

codes=
for capability; do codes="$codes -gencode arch=compute_$capability,code=sm_$capability"; done
if [ -z "${EMULATED:-}" ]; then
  if [ "$(cat "$build/pack.codes" 2>/dev/null)" != "$codes" ]; then rm -f "$build/$module"; fi
  make -s -C "$build" cuda-module $programs CUDA_GENCODE="$codes" >&2
  echo "$codes" >"$build/pack.codes"
fi

# take FILE PLACE: a program or library, stripped.
take() {
  mkdir -p "$(dirname "$pack/$2")"
  cp -L "$1" "$pack/$2"
  strip --strip-unneeded "$pack/$2" 2>/dev/null || :
}

# What the file opens from outside, but for glibc, which goes with the machine, and NVIDIA's libraries.
libraries() {
  LD_LIBRARY_PATH=$build/.libs ldd "$1" | awk '$3 ~ "^/" && $1 !~ "^(libc|libm|libdl|librt|libpthread|libresolv|libcublasLt)[.]so" { print $3 }'
}

for program in $programs; do # libtool leaves a script where a program needs the library of the build
  real=$build/$program
  [ ! -f "$build/$(dirname "$program")/.libs/${program##*/}" ] || real=$build/$(dirname "$program")/.libs/${program##*/}
  take "$real" "$program"
  libraries "$real"
done >"$pack/libraries"
take "$build/$module" "$module"
launcher=$(command -v mpiexec.hydra || command -v mpiexec.mpich || :)
proxy=$(command -v hydra_pmi_proxy || :)
if [ -n "$proxy" ] && [ -n "$launcher" ]; then
  take "$launcher" bin/mpiexec
  take "$proxy" bin/hydra_pmi_proxy
  libraries "$launcher" >>"$pack/libraries"
  libraries "$proxy" >>"$pack/libraries"
else
  echo "no launcher of MPICH is here: the card's machine needs this MPI's own" >&2
fi
sort -u "$pack/libraries" | while read -r library; do
  take "$library" "lib/${library##*/}"
  case $library in
  */libucs.so*) # opens its transports by name
    for part in "${library%/*}"/ucx/lib*.so.0; do
      [ ! -f "$part" ] || take "$part" "lib/ucx/${part##*/}"
    done ;;
  esac
done
rm -f "$pack/libraries"
for script in test/gpu/first.sh test/bench/peer.py; do
  mkdir -p "$pack/${script%/*}"
  cp "$top/$script" "$pack/$script"
done
[ -n "${EMULATED:-}" ] || XZ_OPT="-2 -T0" tar -C "${pack%/*}" -cJf "$pack.tar.xz" "${pack##*/}"
echo "$pack: $(du -sm "$pack" | cut -f1) MiB, for ${EMULATED:+the emulated runtime}${EMULATED:-cards of $*}"
