#!/bin/sh
# TEST ranks: 4
# The tutorials that judge nothing by themselves say what their comments promise.
. "${0%/*}/../test/app/common.sh"

# run CODE RANKS PROGRAM ARGUMENT...
run() {
  wanted=$1
  latest="$*"
  shift
  number=$1
  program=$top_builddir/tutorials/$2
  shift 2
  timeout -k 5 $limit "$mpiexec" -n "$number" "$program" "$@" >out 2>&1 </dev/null
  code=$?
  [ $code -eq "$wanted" ] || fail "exit code $code, not $wanted: $latest"
}

# 1: what the program sets, then what the user does; -help; a misspelt option.
run 0 1 ex1
says "learning rate at step 0: 0.1" "Optimizer: type sgd" "  learning rate 0.1, constant"
run 0 2 ex1 -optimizer_type adamw -optimizer_learning_rate 3e-4
says "learning rate at step 0: 0.0003" "Optimizer: type adamw" "  learning rate 0.0003, constant" "  weight decay 0.01"
[ "$(wc -l <out)" -eq 5 ] || fail "not said once, by both ranks together"
run 0 1 ex1 -help
says "Makes an optimizer from options and shows it." "-optimizer_learning_rate"
lacks "Optimizer: type"
run 5 2 ex1 -optimiser_type adamw
says "unknown option -optimiser_type; did you mean -optimizer_type?"
lacks "learning rate at step"

# 3: two plans for four ranks, the same ones whoever makes them.
run 0 1 ex3
cp out one
[ "$(grep -c '^plan: 2 stages x 2 replicas; steps of 32 samples in 8 micro-batches of 4$' out)" -eq 2 ] || fail "not two plans"
[ "$(grep -c '  128 KiB  .*  2-3$' out)" -eq 2 ] || fail "stage 1 is not on ranks 2 and 3, or what it receives is not said"
says "rank 0: stage 0, replica 0" "rank 1: stage 0, replica 1" "rank 2: stage 1, replica 0" "rank 3: stage 1, replica 1"
run 0 4 ex3
equal_files one out "four ranks make other plans than one"

# 10: the loss of one rank on four, by the program's transport and by MPI's.
run 0 1 ex10
says "0 bytes went by the program's transport"
grep '^loss ' out >one
run 0 4 ex10
lacks "^0 bytes went"
grep '^loss ' out >other
equal_files one other "four ranks do not have the loss of one"
run 0 4 ex10 -transport_type mpi -profile_type analytic
says "0 bytes went by the program's transport"
grep '^loss ' out >other
equal_files one other "transport mpi does not have the loss of the program's own"
run 0 1 ex10 -help
says "|counted"
run 5 1 ex10 -transport_type conted
says "-transport_type conted: not one of auto|mpi|mpi_device|staged|nccl|counted"
finish
