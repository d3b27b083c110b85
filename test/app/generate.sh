#!/bin/sh
# renga generate: the same tokens on any layout, in any company, with caches and without; what ends a text; what is refused. renga eval of questions.
# TEST ranks: 2
. "${0%/*}/common.sh"

for i in 1 2 3 4 5 6 7 8 9; do printf 'abc abd abe abf abg abd abc abe abf abd '; done >text.txt
accepts 1 data text text.txt text.h5 -sequence 16
accepts 2 train -graph $gpt -data text.h5 -data_validation 0 -batch_size 16 -steps 30 -optimizer_learning_rate 0.01 \
  -layout_pipeline 2 -checkpoint_dir t -progress none
write="generate -graph $gpt -checkpoint t -tokens 9"
# of many prompts, of which some are equal, by chance and the likeliest: with caches as without them
printf 'abc\r\nabd ab\nxyz\nabc\nabc a\nb\nc\nd d\ne e\n\n' >prompts
for choice in "-temperature 0" "-seed 5 -generate_top_k 4 -generate_top_p 0.9"; do
  accepts 1 $write -prompt_file prompts $choice -generate_cache off
  cp out whole
  accepts 1 $write -prompt_file prompts $choice -generate_cache on
  equal_files out whole "caches change the texts"
  accepts 1 $write -prompt_file prompts $choice -generate_cache on -batch_size 2
  equal_files out whole "the texts depend on their company"
  for cache in on off; do
    accepts 1 $write -prompt "abc a" $choice -generate_cache $cache
    equal "$(cat out)" "$(sed -n 5p whole)" "a text depends on those before it"
  done
  for layout in "-layout_pipeline 2 -generate_cache on" "-graph_lanes 2 -layout_tensor 2 -generate_cache on -microbatch_size 3" \
    "-layout_data 2 -batch_size 3 -generate_cache off" \
    "-graph_token_lanes 2 -layout_context 2 -generate_cache off"; do
    accepts 2 $write -prompt_file prompts $choice $layout
    equal_files out whole "the texts differ on $layout"
  done
done
# texts that outgrow the sequence
accepts 1 $write -prompt_file prompts -tokens 20
says "without caches of keys and values: a text may have 25 tokens, and the network's sequence is 16"
accepts 2 $write -prompt ab -layout_data 2
says "without caches of keys and values: they are not for replicas"
accepts 1 $write -prompt ab -device_type far
says "without caches of keys and values: device far has no kernels for them"
refuses 2 "-generate_cache on: a text may have 24 tokens" $write -prompt a -tokens 24 -generate_cache on
[ "$(wc -l <whole)" -eq 9 ] || fail "not a line for each prompt"
differ "$(sed -n 1p whole)" "$(sed -n 4p whole)" "equal prompts go on alike"
# the first of the likeliest is the likeliest
accepts 1 $write -prompt_file prompts -temperature 0
cp out likeliest
accepts 1 $write -prompt_file prompts -generate_top_k 1
equal_files out likeliest "one of one is drawn"
accepts 1 $write -prompt_file prompts -generate_top_p 0.000001
equal_files out likeliest "the fewest are not the likeliest"

# Numbers of tokens, objects, and what ends a text.
accepts 1 $write -prompt_tokens '97,98,99;97,98,100,32,97,98' -temperature 0
accepts 1 $write -prompt_tokens '97,98,99' -temperature 0 -generate_format jsonl
says '{"prompt_tokens":[97,98,99],"tokens":[32,97,98,' '"end":"length"}'
accepts 1 $write -prompt abc -temperature 0
says "abc ab"
accepts 1 $write -prompt abc -temperature 0 -generate_stop 'x\,y, ab,zz' -generate_format jsonl
says '"prompt":"abc","prompt_tokens":[97,98,99],"text":"","tokens":[32,97,98],"end":"stop"'
accepts 2 $write -prompt abc -temperature 0 -generate_stop '#98' -layout_pipeline 2
equal "$(cat out)" "abc a" "a token does not end the text"
printf '{"prompt": "abc"}\n{"tokens": [97, 98, 99]}\n' >objects.jsonl
accepts 2 $write -prompt_file objects.jsonl -temperature 0 -layout_pipeline 2
[ "$(uniq out | wc -l)" -eq 1 ] || fail "equal prompts go on in two ways"
printf '\377\303\251' >bytes
accepts 1 $write -prompt_file bytes -tokens 1 -temperature 0 -generate_format jsonl
says "$(printf '{"prompt":"\357\277\275\303\251","prompt_tokens":[255,195,169]')"
# of tokens without text
small=gpt:layers=1,hidden=16,heads=2,sequence=8,vocabulary=40
accepts 1 train -graph $small -data synthetic -data_samples 8 -batch_size 8 -steps 1 -checkpoint_dir s -progress none
accepts 2 generate -graph $small -checkpoint s -prompt_tokens 3,39 -tokens 7 -temperature 0 -layout_pipeline 2 -generate_cache on
says "3 39 "

# Questions: the loss of a sample's tokens is that of the data set, however it is asked for; the likeliest answer.
printf 'abc abd abe abf a' >one.txt
accepts 1 data text one.txt one.h5 -sequence 16
accepts 1 eval -graph $gpt -initial t -data one.h5 -monitor csv:data.csv
awk '{ for (i = 1; i < 17; i++) printf "{\"context\": \"%s\", \"choices\": [\"%s\", \"~\"], \"answer\": 0}\n", substr($0, 1, i),
  substr($0, i + 1, 1) }' one.txt >ask.jsonl
for layout in "1" "2 -layout_pipeline 2" "2 -layout_data 2"; do
  accepts ${layout%% *} eval -graph $gpt -initial t -eval_choices ask.jsonl -monitor csv:ask.csv $(echo "$layout" | cut -s -d ' ' -f 2-)
done
says "by length " "over 16 questions"
[ "$(uniq ask.csv | wc -l)" -eq 2 ] || fail "layouts differ in ask.csv"
tail -n 1 ask.csv | grep -q '^"t",30,choices,16,.*,1$' || fail "the row of ask.csv"
awk -F, 'FNR == 2 { loss[FILENAME] = $5 } END { exit (loss["data.csv"] / loss["ask.csv"] - 1) ^ 2 > 1e-12 }' data.csv ask.csv ||
  fail "questions have another loss than data"
printf '{"context": [97, 98], "choices": [[99], [1, 2], [3]], "answer": 2}\n' >numbers.jsonl
accepts 1 eval -graph $gpt -initial t -eval_choices numbers.jsonl
says "accuracy 0.00 %, by length 0.00 %"

refuses 2 "-generate_top_p 0 is a share of the probability" $write -generate_top_p 0
refuses 2 "-generate_top_p 1.5: must be from 0 to 1" $write -generate_top_p 1.5
refuses 2 "-generate_top_k -1: must be from 0" $write -generate_top_k -1
refuses 2 "-generate_stop: the network has no token 256: they are 0 to 255" $write -generate_stop '#256'
refuses 2 "-generate_stop has an empty text" $write -generate_stop 'a,,b'
refuses 2 "tokens of this network stand for no text; write them as #7" generate -graph $small -checkpoint s -prompt_tokens 3 -generate_stop a
refuses 2 "-prompt has 17 tokens, and the network's sequence is 16" $write -prompt "abcdefghijklmnopq"
refuses 2 "\"97,,98\" is no list of numbers of tokens" $write -prompt_tokens 97,,98
refuses 2 "-prompt_tokens: the network has no token 256" $write -prompt_tokens 97,256
refuses 2 "-prompt, -prompt_tokens and -prompt_file: give one of them" $write -prompt a -prompt_tokens 97
refuses 2 "cannot open file: none: No such file or directory" $write -prompt_file none
refuses 2 "-microbatch_size 2: each text is a micro-batch" $write -prompt a -microbatch_size 2 -generate_cache off
printf 'abc\n\nabd\n' >gap
refuses 2 "gap, line 2 is empty: give some text" $write -prompt_file gap
for line in '{"prompt": 1}' '{"prompt": "a", "tokens": [1]}' '[1]' '{"prompt": "a"' '{"tokens": 5}' '{"prompt": "a"} {"prompt": "b"}'; do
  echo "$line" >wrong.jsonl
  refuses 2 "wrong.jsonl, line 1 is no prompt: an object with" $write -prompt_file wrong.jsonl
done
printf '%s\n' '{"prompt": "a\u0000b"}' >wrong.jsonl
refuses 2 "line 1: the prompt has a character 0" $write -prompt_file wrong.jsonl
echo '{"tokens": [1, "a"]}' >wrong.jsonl
refuses 2 "line 1: \"tokens\" has \"a\", which is no number of a token" $write -prompt_file wrong.jsonl
: >empty
refuses 2 "empty has no lines" $write -prompt_file empty
printf 'a\0b\n' >zero
refuses 2 "zero is no file of lines of text" $write -prompt_file zero
refuses 2 "renga generate writes bytes: the output logits must be [batch, 8, 256]" generate -graph $small -checkpoint s
question='{"context": "a", "choices": ["b", "c"], "answer": '
for line in '{"context": "a"}' "[1]" "$question\"b\"}" "${question%??????????}"; do
  echo "$line" >wrong.jsonl
  refuses 2 "wrong.jsonl, line 1 is no question: an object with" eval -graph $gpt -eval_choices wrong.jsonl
done
echo "${question}2}" >wrong.jsonl
refuses 2 "line 1: answer 2 is none of its 2 choices" eval -graph $gpt -eval_choices wrong.jsonl
echo '{"context": "a", "choices": ["b", [1]], "answer": 0}' >wrong.jsonl
refuses 2 "context and choices are all texts, or all arrays" eval -graph $gpt -eval_choices wrong.jsonl
echo '{"context": "abcdefghijklmnop", "choices": ["qr"], "answer": 0}' >wrong.jsonl
refuses 2 "context and choice have 17 tokens but the last" eval -graph $gpt -eval_choices wrong.jsonl
refuses 2 "-data one.h5: -eval_choices has questions of its own" eval -graph $gpt -eval_choices ask.jsonl -data one.h5
finish
