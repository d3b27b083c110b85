#!/bin/sh
# Learners that train apart: the same numbers on any ranks and layout and after a resume between two
# exchanges; with exchanges in every step and plain sgd those of training as one; by hand; by name what
# is not supported.
. "${0%/*}/common.sh"

train="train -graph $mlp -data synthetic -data_samples 103 -batch_size 8 -microbatch_size 2 -progress none
  -parameter_digest -optimizer_type adam -optimizer_learning_rate 0.01"

for manner in local:3 gossip:2; do
  apart="$train -train_average $manner -train_learners 4 -data_validation 0.2 -eval_every 7"
  rm -f one.csv two.csv
  accepts 1 $apart -steps 20 -monitor csv:one.csv
  says "4 learners train apart ($manner), each with 2 of 8 samples of a step: 4 on each of 1 group"
  expected=$(digest)
  cut -d, -f1-4,7 one.csv >one
  accepts 2 $apart -steps 20 -monitor csv:two.csv
  says "2 on each of 2 groups of ranks"
  equal "$(digest)" "$expected" "another digest on two groups, $manner"
  equal "$(cut -d, -f1-4,7 two.csv)" "$(cat one)" "other rows on two groups, $manner"
  accepts 3 $apart -steps 20 -layout_pipeline 3
  equal "$(digest)" "$expected" "another digest on three stages, $manner"
  # Stopped between two exchanges, with momentums of learners on their way.
  accepts 2 $apart -steps 11 -checkpoint_dir c-$manner
  accepts 3 $apart -steps 20 -checkpoint_dir c-$manner -resume -layout_data 2
  says "goes on after step 11"
  equal "$(digest)" "$expected" "another digest after a resume, $manner"
done
accepts 4 $train -train_average local:3 -train_learners 2 -steps 10 -layout_pipeline 2
expected=$(digest)
accepts 1 $train -train_average local:3 -train_learners 2 -steps 10
equal "$(digest)" "$expected" "another digest on two stages of two groups"
accepts 2 $train -train_average local:4 -train_learners 2 -steps 10
differ "$(digest)" "$expected" "how often they average changes nothing"

# Owners, whose samples ranks hold: those of a learner's share of the batch.
owned="$train -train_average local:3 -train_learners 2 -data_owners 4 -data_shuffle partial:0.3"
accepts 1 $owned -steps 30
expected=$(digest)
accepts 2 $owned -steps 30
equal "$(digest)" "$expected" "another digest with owners"

# The mean is what other commands read.
accepts 2 eval -graph $mlp -data synthetic -data_samples 103 -data_validation 0.2 -batch_size 8 -microbatch_size 2 -initial c-local:3
accepts 2 $train -steps 3 -initial c-local:3
accepts 2 $train -train_average local:3 -train_learners 2 -steps 3 -initial c-local:3
refuses 2 "had 4 learners, this one has 1" $train -steps 30 -checkpoint_dir c-local:3 -resume
refuses 2 "had 4 learners, this one has 2" $train -steps 30 -checkpoint_dir c-local:3 -resume -train_average local:3 -train_learners 2

# Copies of -checkpoint_async are those of all learners of a rank, and of the mean.
async="$train -train_average local:3 -train_learners 2 -steps 5 -checkpoint_async"
refuses 1 "copies 13.2 KiB to memory of the host, of which the plan takes 19.0 KiB: that is more than -partition_memory 31.0 KiB; give 32.2 KiB" \
  $async -partition_memory 31KiB -checkpoint_dir copies
accepts 1 $async -partition_memory 33KiB -checkpoint_dir copies -checkpoint_every 2 -log_view
grep -q "copied aside  *13.2 KiB  *13.2 KiB" out || fail "copies take something else"

# Plain sgd: a mean of steps is a step of means.
plain="train -graph $mlp -data synthetic -data_samples 104 -batch_size 8 -microbatch_size 2 -progress none
  -optimizer_type sgd -optimizer_momentum 0 -optimizer_learning_rate 0.1 -steps 30"
accepts 1 $plain -monitor csv:sync.csv
accepts 2 $plain -monitor csv:local.csv -train_average local:1 -train_learners 4
cut -d, -f2 sync.csv >sync
cut -d, -f2 local.csv | paste -d, sync - | awk -F, '
  NR > 1 { d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4 * $1) { print "step " NR - 2 ": " $0; bad = 1 } n++ }
  END { exit bad || n != 30 }' >out || fail "local:1 is another training"

# By hand, from what the learners had after their first step.
awk 'BEGIN { srand(3); print "a,b,c,class"; for (i = 0; i < 24; i++) { a = rand(); b = rand(); c = rand()
  print a "," b "," c "," (a > b) + (b > c) } }' >table.csv
accepts 1 data csv table.csv table.h5 -data_label class
accepts 2 train -graph mlp:sizes=3-3 -data table.h5 -data_shuffle false -batch_size 8 -microbatch_size 2 -progress none \
  -optimizer_type sgd -optimizer_momentum 0 -optimizer_learning_rate 0.5 -steps 10 -train_average local:3 -train_learners 2 \
  -checkpoint_dir hand -checkpoint_every 1 -checkpoint_keep 100
/usr/bin/env python3 - <<'PYTHON' >python.log 2>&1
import sys
try:
    import h5py, numpy
except ImportError:
    sys.exit(0)
table = h5py.File('table.h5')
x, labels = table['training/x'][:].astype(float), table['training/labels'][:]
first, last = (h5py.File('hand/step_%09d.h5' % s)['parameters'] for s in (1, 10))
names = 'l.0.weight', 'l.0.bias'
learner = [[first['renga:learner%d:%s' % (l, n)][:].astype(float) for n in names] for l in (0, 1)]
assert not numpy.allclose(learner[0][0], learner[1][0])
for step in range(1, 10):
    for l, (weight, bias) in enumerate(learner):
        at = step % 3 * 8 + l * 4
        batch, label = x[at:at + 4], labels[at:at + 4]
        p = numpy.exp(batch @ weight.T + bias)
        p /= p.sum(1, keepdims=True)
        p[range(4), label] -= 1
        weight -= 0.5 * p.T @ batch / 4
        bias -= 0.5 * p.mean(0)
    if (step + 1) % 3 == 0:
        mean = [(a + b) / 2 for a, b in zip(*learner)]
        learner = [[m.copy() for m in mean] for l in (0, 1)]
for i, n in enumerate(names):
    for l in (0, 1):
        assert numpy.allclose(last['renga:learner%d:%s' % (l, n)][:], learner[l][i], atol=1e-5), (l, n)
    assert numpy.allclose(last[n][:], (learner[0][i] + learner[1][i]) / 2, atol=1e-5), n
PYTHON
[ ! -s python.log ] || { cp python.log out; fail "not what is worked out by hand"; }

for bad in local local:0 local:-2 gossip:2.5 local:x async; do
  refuses 2 "-train_average $bad is none of sync, local:K, gossip:K" $train -train_average $bad -train_learners 2
done
refuses 2 "-train_learners says how many, 2 or more" $train -train_average local:4
refuses 2 "-train_learners 4 is for -train_average local:K or gossip:K" $train -train_learners 4
refuses 2 "a batch of 8 samples cannot be split equally among 3 learners" $train -train_average local:4 -train_learners 3
refuses 2 "-train_average local and gossip need -batch_size: the samples of a step, of all 2 learners" train -graph $mlp -data synthetic -train_average local:4 -train_learners 2
for other in "-data_hide 0.3" "-pipeline_on_nonfinite skip" "-layout_zero optimizer" "-optimizer_sparse lazy" "-precision fp16"; do
  refuses 2 "$other together with -train_average local:4 is not supported" $train -train_average local:4 -train_learners 2 $other
done
refuses 2 "not supported for -device_type far" $train -train_average local:4 -train_learners 2 -device_type far
tellers=2 # one of each learner
refuses 2 "not a finite number" $train -train_average local:4 -train_learners 2 -optimizer_type sgd -optimizer_learning_rate 1e38 -steps 20 \
  -checkpoint_dir bad -checkpoint_every 1
refuses 2 "not a finite number" $train -train_average local:4 -train_learners 2 -optimizer_type sgd -optimizer_learning_rate 1e38 -steps 20 \
  -checkpoint_dir bad -checkpoint_every 1 -resume
tellers=1
grep -q "was followed by a step that was not finite" out || fail "the checkpoint before it is not marked"
finish
