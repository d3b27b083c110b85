#!/bin/sh
# renga eval and renga predict: the same bits on any layout, of the parameters of a checkpoint.
. "${0%/*}/common.sh"

# accepts, with the ranks and options of a layout in one word.
accepts_on() {
  layout=$1
  shift
  accepts ${layout%% *} "$@" $(echo "$layout" | cut -s -d ' ' -f 2-)
}

awk 'BEGIN { print "a,b,c,d,e,f,g,h,kind"; for (i = 0; i < 83; i++) {
  for (k = 0; k < 8; k++) printf "%d,", (i * (k + 3)) % 7; print "k" i % 4 } }' >table.csv
accepts 1 data csv table.csv table.h5 -data_label kind -data_validation 0.25
net="-graph $mlp -data table.h5"
accepts 2 train $net -batch_size 16 -microbatch_size 2 -steps 5 -checkpoint_dir a -layout_pipeline 2 \
  -monitor csv:train.csv -progress none

# The loss: that of the training's last validation; a row for each call.
for layout in "1" "2 -layout_pipeline 2" "2 -layout_data 2" "3"; do
  accepts_on "$layout" eval $net -initial a -batch_size 16 -microbatch_size 2 -monitor csv:eval.csv
  accepts_on "$layout" eval $net -initial a -part all -monitor csv:all.csv
done
says "over 83 samples (all)"
[ "$(wc -l <eval.csv)" -eq 5 ] || fail "eval.csv has not a row for each call"
[ "$(uniq eval.csv | wc -l)" -eq 2 ] || fail "layouts differ in eval.csv"
[ "$(uniq all.csv | wc -l)" -eq 2 ] || fail "layouts differ in all.csv"
[ "$(head -n 1 eval.csv)" = "initial,step,part,samples,loss,perplexity,accuracy" ] || fail "the head of eval.csv"
tail -n 1 eval.csv | grep -q '^"a",5,validation,20,' || fail "the row of eval.csv"
awk -F, 'FNR == 1 { next } FILENAME == "train.csv" && $7 { loss = $7 }
  FILENAME == "eval.csv" && ($5 / loss - 1) ^ 2 > 1e-16 { exit 1 }' train.csv eval.csv ||
  fail "eval has another loss than the validation of the training"
accepts 1 eval $net -initial a -eval_samples 7
says "over 7 samples (validation)"
accepts 1 eval $net -part training
says "over 63 samples (training)"
lacks "parameters and states are those of"
accepts 1 eval -graph $gpt -data synthetic -data_samples 5
says "perplexity"

# Outputs in the order of the samples, of which the loss is computed here again; labels are not needed.
for layout in "1" "2 -layout_pipeline 2" "2 -layout_data 2" "3"; do
  accepts_on "$layout" predict o.h5 $net -initial a -overwrite -output l.2,l.0
  [ ! -e p.h5 ] || equal_files p.h5 o.h5 "outputs differ on $layout"
  mv o.h5 p.h5
done
says "2 outputs of 83 samples (all)"
accepts 2 predict v.h5 $net -initial a -part validation
says "1 output of 20 samples (validation)"
/usr/bin/env python3 - <<'PYTHON' >python.log 2>&1
import csv, sys
try:
    import h5py, numpy
except ImportError:
    sys.exit(0)
table, p, v = h5py.File('table.h5'), h5py.File('p.h5'), h5py.File('v.h5')
assert p['l.0'].shape == (83, 16) and p['l.2'].shape == (83, 4), list(p)
assert p['l.2'].attrs['output'] == b'l.2' and p.attrs['training_samples'] == 63 and p.attrs['step'] == 5
assert numpy.array_equal(p['l.2'][63:], v['l.2'][:])
labels = numpy.concatenate([table['training/labels'][:], table['validation/labels'][:]])
x = numpy.concatenate([table['training/x'][:], table['validation/x'][:]])
scores = p['l.2'][:].astype(float)
losses = numpy.log(numpy.exp(scores).sum(1)) - scores[numpy.arange(83), labels]
row = list(csv.DictReader(open('all.csv')))[-1]
assert abs(losses.mean() - float(row['loss'])) < 1e-6, (losses.mean(), row)
assert abs((scores.argmax(1) == labels).mean() - float(row['accuracy'])) < 1e-8, row
w = h5py.File('a/step_000000005.h5')['parameters']
assert numpy.allclose(x @ w['l.0.weight'][:].T + w['l.0.bias'][:], p['l.0'][:], atol=1e-5)
PYTHON
[ ! -s python.log ] || { cp python.log out; fail "the file of outputs"; }
onnx=${top_srcdir:-.}/test/reference/networks/mlp_export.onnx # its only output is the loss
accepts 2 predict n.h5 -graph "$onnx" -data synthetic -data_samples 5
says "1 output of 5 samples"
accepts 1 predict m.h5 -graph "$onnx" -data synthetic -data_samples 5 -output node_linear_2,node_relu
says "2 outputs of 5 samples"
sed 's/,[^,]*$//' table.csv >x.csv
accepts 1 data csv x.csv x.h5 -data_targets a -data_validation 0
refuses 2 "input labels of the network takes int64[]; x.h5:/training/y has float32[1], which is not converted to int64" train -graph mlp:sizes=7-16-4 -data x.h5 -steps 1
accepts 2 predict x-out.h5 -graph mlp:sizes=7-16-4 -data x.h5

# What is refused.
refuses 2 "p.h5 is there already: -overwrite replaces it" predict p.h5 $net -initial a
refuses 2 "no-folder/p.h5 cannot be written" predict no-folder/p.h5 $net -initial a
refuses 2 "the network has no value l.3; did you mean l." predict q.h5 $net -output l.3
refuses 2 "the network has no value scores; its outputs are l.2" predict q.h5 $net -output scores
refuses 1 "holds another network, 28 differences:" generate -graph $gpt -checkpoint a
lacks "-initial_partial"
refuses 2 "checkpoint b: No such file or directory" eval $net -initial b
refuses 2 "-part validation: the data set has no samples there" eval -graph $mlp -data synthetic -part validation
refuses 2 "train.csv: the file is there, but not one of renga eval" eval $net -monitor csv:train.csv
refuses 2 "some word is missing" predict $net
refuses 2 "renga eval does not use -checkpoint_dir" eval $net -checkpoint_dir a
printf spoilt | dd of=a/step_000000005.h5 bs=1 seek=5000 conv=notrunc 2>/dev/null
refuses 2 "none of the 1 checkpoints in a is whole" predict q.h5 $net -initial a
[ ! -e q.h5 ] || fail "q.h5 was made"
[ -z "$(ls ./*.tmp 2>/dev/null)" ] || fail "a temporary file is left"
finish
