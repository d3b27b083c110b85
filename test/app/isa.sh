#!/bin/sh
# TEST ranks: 2
# Whole runs with the kernels of each instruction set, and with 1, 2 and 3 threads: on one instruction set the bits are
# those of one thread on one rank, between instruction sets the losses are near each other.
. "${0%/*}/common.sh"
small="-data synthetic -batch_size 4 -microbatch_size 2 -parameter_digest -progress none -steps 2 -seed 1"
sets=0
for network in "$gpt" resnet:depth=18,width=0.0625,image=16,classes=5 t5:layers=1,hidden=12,heads=3,head_width=4,intermediate=17,sequence=8,vocabulary=61; do
  for isa in base avx2 avx512; do
    "$renga" train -graph "$network" $small -device_isa $isa -device_threads 1 -monitor csv:$isa.csv </dev/null >out 2>&1 || {
      grep -q -e "-device_isa $isa" out || fail "-device_isa $isa: $network"
      continue
    }
    sets=$((sets + 1))
    digest=$(grep "parameter digest 0x" out)
    for threads in 2 3; do
      accepts 1 train -graph "$network" $small -device_isa $isa -device_threads $threads
      says "$digest"
    done
    accepts 2 train -graph "$network" $small -device_isa $isa -device_threads 2 -layout_pipeline 2
    says "$digest"
    [ $isa = base ] || paste -d, base.csv $isa.csv | awk -F, 'NR > 1 { rows++; d = $2 - $(NF / 2 + 2); if (d > 1e-3 || d < -1e-3) bad = 1 }
      END { exit bad || !rows }' || fail "losses with -device_isa $isa are not near those with base: $network"
  done
  rm -f base.csv avx2.csv avx512.csv
done
# A shape at which products of oneDNN by AMX are no instructions.
for isa in base avx2 avx512; do
  "$renga" train -data synthetic -seed 1 -steps 1 -graph mlp:sizes=20-63-257-10 -precision bf16 -batch_size 47 -device_isa $isa \
    -device_threads 1 -progress none </dev/null >out 2>&1 || grep -q -e "-device_isa $isa" out || fail "bf16 with -device_isa $isa"
done
[ $sets -ge 3 ] || fail "only $sets runs"
finish
