#!/bin/sh
# renga plan -plan_tokens: steps, walltime, node-hours and device-hours agree. -plan_sweep: plans for
# values of one option and of several, as a table and a picture; what is refused before anything is planned.
. "${0%/*}/common.sh"

gpt=$(echo "$gpt" | sed s/layers=2/layers=1/)
machine="plan -graph $gpt -machine_file v100 -batch_size 32"

# 16 tokens per sample, 512 per step. The step is printed with three digits.
accepts 1 $machine -machine_nodes 2 -plan_tokens 400e9
says "400 G tokens: 781250000 steps take "
says " on 2 nodes, "
says " device-hours on 16 devices"
awk '/predicted:/ { step = $2 * ($3 == "us" ? 1e-6 : $3 == "ms" ? 1e-3 : 1) }
  /tokens: / {
    for (i = 1; i < NF; i++) {
      if ($i == "take") { split($(i + 1), time, ":"); hours = time[1] + time[2] / 60 }
      if ($i == "steps") steps = $(i - 1)
      if ($i == "node-hours") nodes = $(i - 1)
    }
    days = $0; sub(/.*[(]/, "", days); sub(/ days.*/, "", days)
    good = hours > 1 && near(hours, steps * step / 3600) && near(hours, 24 * days) && near(nodes, 2 * hours)
  }
  function near(a, b) { return a > 0.99 * b && a < 1.01 * b }
  END { exit !good }' out || fail "steps, time and node-hours do not agree"

# row NUMBER: the columns of a row of the table; a unit is with its number, and % is left out.
row() {
  sed -n "/^ .*[0-9] x [0-9]/p" out | sed -n "$1p" | sed -e 's/ \([KMGT]*iB\) / \1 /' -e 's/ x /x/g' -e 's/ %//g' -e 's/\([0-9]\) \([um]*s\|days\|hours\|[KMGT]*i*B\) /\1\2 /g'
}
accepts 1 $machine -machine_nodes 1,2,4 -plan_tokens 400e9
[ "$(row '1,$' | wc -l)" -eq 3 ] || fail "not three rows"
row '1,$' | awk '{
    nodes = $1; split($(NF - 3), time, ":"); hours = time[1] + time[2] / 60; tokens = $10
    good = $(NF - 4) == 781250000 && near($(NF - 1), nodes * hours) && near($NF, 8 * nodes * hours) &&
      near(hours, 400e9 / tokens / 3600) && near(tokens, 16 * $9)
    bad += !good
  }
  function near(a, b) { return a > 0.99 * b && a < 1.01 * b }
  END { exit bad || NR != 3 }' || fail "the table's numbers do not agree"
refuses 1 "no input of the network is [batch, sequence] of tokens; give -plan_samples" plan -graph $mlp -machine_file v100 -batch_size 8 -plan_tokens 1e9
accepts 1 plan -graph $mlp -machine_file v100 -machine_nodes 1,2 -batch_size 8 -plan_samples 1e9
lacks "tokens/s"

# Numbers without powers of ten, and no label beyond the picture.
accepts 1 plan -graph $mlp -machine_file v100 -machine_nodes 1,2,4 -batch_size 65536 -microbatch_size 4096 -plan_view draw:nodes.svg
grep '^<text' nodes.svg | grep -q 'e+[0-9]' && fail "a number with a power of ten"
grep -q ' M (100 %)<' nodes.svg || fail "no label of the first point"
sed -n 's/^<text x="\([0-9.]*\)" y="[0-9.]*" fill="#4477aa" text-anchor="\([a-z]*\)">\(.*\)<.text>$/\1 \2 \3/p' nodes.svg |
  awk '{ end = $1 + ($2 == "start") * 6 * (length($0) - length($1 $2) - 2); bad += end > 820 } END { exit bad || NR != 3 }' ||
  fail "a label beyond the picture"

# Two options: all combinations. A row is what the plan itself says.
accepts 1 $machine -machine_nodes 1 -plan_sweep batch_size:8,16,64 microbatch_size:1,2 -plan_view draw:grid.svg
[ "$(row '1,$' | wc -l)" -eq 6 ] || fail "not six rows"
[ "$(row '1,$' | awk '{ printf "%s/%s\n", $1, $2 }' | sort | tr '\n' ' ')" = "16/1 16/2 64/1 64/2 8/1 8/2 " ] || fail "other values"
# The fastest first; the front, as of devices that are used, samples/s (with digits that suffice here) and memory.
says "front, *: no other row is better in one of devices"
row '1,$' | awk 'BEGIN { unit["KiB"] = 1024; unit["MiB"] = 1024 * 1024; unit["B"] = 1 }
  { used[NR] = $5; rate[NR] = $10; mark[NR] = $NF == "*"; split($8, memory, /[KMB]/)
    bytes[NR] = memory[1] * unit[substr($8, length(memory[1]) + 1)] }
  END {
    for (i = 1; i <= NR; i++) {
      bad += i > 1 && rate[i] > rate[i - 1]
      front = 1
      for (j = 1; j <= NR; j++)
        if (used[j] <= used[i] && rate[j] >= rate[i] && bytes[j] <= bytes[i] &&
          (used[j] < used[i] || rate[j] > rate[i] || bytes[j] < bytes[i])) front = 0
      bad += front != mark[i]; fronts += front
    }
    exit bad || fronts == 0 || fronts == NR || bytes[1] == 0
  }' || fail "another order, or another front"
says "most samples per second: batch_size "
[ "$(grep -c '<circle' grid.svg)" -eq 6 ] || fail "not six points"
[ "$(grep -c '<path fill="none"' grid.svg)" -eq 2 ] || fail "not two curves"
grep -q '>microbatch_size 2<' grid.svg || fail "a curve without a name"
if command -v xmllint >/dev/null; then xmllint --noout grid.svg || fail "not well-formed"; fi
step=$(sed -n 's/^ *16  *2  .*iB  *\([0-9.]* [um]*s\) .*/\1/p' out)
accepts 1 $machine -machine_nodes 1 -batch_size 16 -microbatch_size 2
says "predicted: ${step:-none} per step"
mv grid.svg words.svg
accepts 1 $machine -machine_nodes 1 -plan_sweep "batch_size:8,16,64  microbatch_size:1,2" -plan_view draw:grid.svg
equal_files grid.svg words.svg "another table in one word than in two"

# Words in place of numbers; several numbers of nodes beside them; what a machine cannot do is a row.
accepts 1 $machine -machine_file dgx-a100 -machine_nodes 1 -plan_sweep precision:fp32,bf16 -plan_view draw:words.svg
[ "$(row '1,$' | wc -l)" -eq 2 ] || fail "not two rows"
[ "$(grep -c '<circle' words.svg)" -eq 2 ] || fail "not two points"
grep -q '>bf16<' words.svg || fail "a place without its word"
row 1 | awk '{ exit !($7 != "") }' || fail "no memory"
differ "$(row 1 | awk '{ print $7 }')" "$(row 2 | awk '{ print $7 }')" "the network was not read anew"
accepts 1 $machine -machine_nodes 1,2 -plan_sweep precision:fp32,bf16
[ "$(row '1,$' | wc -l)" -eq 2 ] || fail "not two rows of fp32"
[ "$(grep -c '^ .*is refused$' out)" -eq 2 ] || fail "not two rows of bf16"
says "precision bf16, machine_nodes 2: "
says "matrix_rate_bfloat16"
accepts 2 $machine -plan_sweep machine_file:v100,mdx-cpu
says "plans for several machines"
# Nodes of fewer devices than the file has.
accepts 1 $machine -machine_nodes 2 -plan_sweep machine_devices:8,4,1
[ "$(row '1,$' | awk '{ printf "%s:%s ", $1, $2 }' | tr ' ' '\n' | sort | tr '\n' ' ')" = "1:2 4:8 8:16 " ] || fail "other devices"
# Lanes follow the tensor-parallel ranks of each row: it is what its plan alone says.
shared="$machine -machine_nodes 1 -partition_type even -partition_ranks 4 -layout_pipeline 1"
accepts 1 $shared -plan_sweep layout_tensor:4,1,2
rows=$(row '1,$' | awk '{ print $1, $8 }')
for number in 1 2 4; do
  accepts 1 $shared -layout_tensor $number
  says "predicted: "
  alone=$(awk '/predicted: / { print $2 }' out)
  [ -n "$alone" ] && echo "$rows" | grep -q "^$number .*$alone" || fail "a row of the sweep is not the plan of $number tensor-parallel ranks: $rows"
done
accepts 1 $machine -machine_nodes 1 -plan_sweep layout_pipeline:200,1
awk '/does not fit|is refused/ { refused = NR } / x / && /%/ { planned = NR } END { exit !(planned && refused > planned) }' out ||
  fail "a row that is refused comes before others"
says "layout_pipeline 200: 200 stages, but the network has only"

refuses 2 "did you mean batch_size?" $machine -plan_sweep batchsize:8
refuses 1 "-batch_size x: not a whole number" $machine -plan_sweep batch_size:8,x
refuses 1 "-plan_sweep, machine_nodes 0: -machine_nodes 0" $machine -plan_sweep machine_nodes:1,0
refuses 1 "-plan_sweep, machine_devices 9: -machine_devices 9: a node of v100 has 8" $machine -plan_sweep machine_devices:4,9
refuses 1 "-machine_devices 0: must be from 1" $machine -machine_devices 0
refuses 1 "-machine_devices 9: a node of v100 has 8" $machine -machine_devices 9
refuses 1 "there is no machine \"nosuch\"" $machine -plan_sweep machine_file:v100,nosuch
refuses 1 "at most 64 values, none empty" $machine -plan_sweep "batch_size:$(seq -s, 1 2000)"
refuses 1 "more than 64 plans" $machine -plan_sweep "batch_size:$(seq -s, 1 30)" microbatch_size:1,2,4
refuses 1 "-plan_sweep batch_size:: at most 64 values, none empty, please" $machine -plan_sweep batch_size:
refuses 1 "-plan_sweep is empty: write OPTION:VALUE,VALUE,..., as batch_size:512,1024" $machine -plan_sweep ""
refuses 1 "-plan_sweep has batch_size twice: write all its values in one list" $machine -plan_sweep batch_size:8,16 batch_size:1
refuses 1 "-plan_sweep foo: write OPTION:VALUE" $machine -plan_sweep batch_size:8,16 foo
refuses 1 "-plan_diff compares plans, and -plan_sweep makes some: give one of them" $machine -plan_sweep batch_size:8,16 -plan_diff a b
finish
