#!/bin/sh
# Conversations: rows in the tokens and by the chat template of a folder, and what is refused, with its line.
. "${0%/*}/common.sh"
mkdir folder
cp "$top_srcdir/test/data/tokenizer.json" folder
# template TEXT: the folder's
template() {
  printf '{"chat_template": "%s", "eos_token": {"content": "<|end|>"}, "bos_token": null}\n' "$1" >folder/tokenizer_config.json
}
chatml="{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\\\n' + message['content'] + '<|im_end|>' + '\\\\n'}}{% endfor %}"
template "$chatml"
cat >chat.jsonl <<'LINES'
{"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "in the"}]}

{"messages": [{"role": "system", "content": "the"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "the"}, {"role": "assistant", "content": ""}], "source": 3}
{"messages": [{"role": "user", "content": "a long one that does not fit, so that of what is said to it only the beginning is in its row"}, {"role": "assistant", "content": "and this is cut: the beginning of the answer is learned, and its end is left out of the row"}]}
LINES
accepts 2 data chat chat.jsonl chat.h5 -tokenizer folder -sequence 160
says "wrote chat.h5: 3 documents in 3 rows of 160 tokens" "1 documents are longer than a row"
labels=$(sed -n 's/.* \([0-9]*\) labels count.*/\1/p' out)
accepts 2 data chat chat.jsonl packed.h5 -tokenizer folder -sequence 160 -data_packed
says "wrote packed.h5: 3 documents in" "$labels labels count"
accepts 2 train -graph gpt:layers=1,hidden=16,heads=2,sequence=160,vocabulary=281 -data chat.h5 -batch_size 3 -steps 1 -layout_pipeline 2
# The answers with <|im_end|> behind each, and no more, of rows that are long enough.
accepts 1 data chat chat.jsonl long.h5 -tokenizer folder -sequence 400 -data_validation 0.4
says "wrote long.h5: 3 documents in 3 rows of 400 tokens" "0 documents are longer than a row"

# says_line SENTENCE LINE: a file with that line behind a good one is refused.
says_line() {
  head -n 1 chat.jsonl >bad.jsonl
  printf '%b\n' "$2" >>bad.jsonl
  refuses 2 "bad.jsonl: line 2$1" data chat bad.jsonl bad.h5 -tokenizer folder -sequence 64
  [ ! -e bad.h5 ] || fail "half a data set is left"
}
says_line " is no JSON object with a list messages: {\"messages\"" '{"messages": ['
says_line " is no JSON object with a list messages: [1]" '[1]'
says_line " is no JSON object with a list messages: {\"messages\": []}" '{"messages": []}'
says_line " is no JSON object with a list messages" '{"messages": [{"role": "user", "content": "a"}]} {}'
says_line ": message 1 has no texts role and content" '{"messages": [{"role": "user", "content": ["a"]}]}'
says_line ": message 1 is of the tool; understood are system, as the first, user and assistant" '{"messages": [{"role": "tool", "content": "a"}]}'
says_line ": message 2 is of the system; understood" '{"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "a"}]}'
says_line ": message 1 has tool_calls, of which is not known" '{"messages": [{"role": "user", "content": "a", "tool_calls": []}]}'
says_line " has enable_thinking, which are not supported" '{"messages": [{"role": "user", "content": "a"}], "enable_thinking": false}'
says_line " has documents, which are not supported" '{"messages": [{"role": "user", "content": "a"}], "documents": [{"text": "b"}]}'
says_line " has tools, which are not supported" '{"messages": [{"role": "user", "content": "a"}], "tools": []}'
says_line " has no turn of the assistant, so that nothing of it is learned" '{"messages": [{"role": "user", "content": "a"}]}'
says_line ": byte 1, 0xff, is no text in UTF-8" '{\0377}'
says_line ": message 1 has a character 0" '{"messages": [{"role": "user", "content": "a\\u0000"}]}'
zephyr="{{ '<|system|>\\\\n' + message['content'] + eos_token }}{{ '<|user|>\\\\n' + message['content'] + eos_token }}{{ '<|assistant|>\\\\n' + message['content'] + eos_token }}"
template "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' + role + '\\\\n' + message['content'] | trim + '<end_of_turn>\\\\n' }}{% endfor %}"
says_line ": the chat template (Gemma) has no turns of the system" \
  '{"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
says_line ": turn 1 is of the assistant: in the chat template (Gemma) user and assistant take turns" '{"messages": [{"role": "assistant", "content": "a"}]}'
template "$zephyr"
accepts 1 data chat chat.jsonl zephyr.h5 -tokenizer folder -sequence 160
# Templates with words of the system of their own, without turns of it, without an end, or with other blanks.
template "{% set system_message = 'Be kind.' %}$chatml"
refuses 1 "folder: its chat template is none of" data chat chat.jsonl bad.h5 -tokenizer folder
template "{{'<|user|>\\\\n' + message['content'] + '<|end|>\\\\n<|assistant|>\\\\n'}}{{message['content'] + '<|end|>\\\\n'}}"
says_line ": the chat template (Phi-3) has no turns of the system" \
  '{"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
template "{{ '<|im_start|>' + message['role'] + ' ' + message['content'] + '<|im_end|>' + '\\\\n'}}"
refuses 1 "folder: its chat template is none of" data chat chat.jsonl bad.h5 -tokenizer folder
printf '{"chat_template": "%s"}\n' "$zephyr" >folder/tokenizer_config.json
refuses 1 "folder/tokenizer_config.json has no eos_token, which its chat template writes" data chat chat.jsonl bad.h5 -tokenizer folder
printf '{"chat_template": [{"name": null, "template": "%s"}]}\n' "$chatml" >folder/tokenizer_config.json
refuses 1 "folder/tokenizer_config.json has no chat_template" data chat chat.jsonl bad.h5 -tokenizer folder
template "{{ messages | tojson }}"
refuses 2 "folder: its chat template is none of ChatML, Llama 3, Llama 2, Mistral, Gemma, Phi-3, Zephyr: write tokens and labels with Python" \
  data chat chat.jsonl bad.h5 -tokenizer folder
echo '{}' >folder/tokenizer_config.json
refuses 2 "folder/tokenizer_config.json has no chat_template" data chat chat.jsonl bad.h5 -tokenizer folder
rm folder/tokenizer_config.json
refuses 2 "folder/tokenizer_config.json is not there, or no JSON object" data chat chat.jsonl bad.h5 -tokenizer folder
refuses 2 "renga data chat needs -tokenizer FOLDER" data chat chat.jsonl bad.h5
template "$chatml"
refuses 2 "none.jsonl: No such file or directory" data chat none.jsonl bad.h5 -tokenizer folder
: >empty.jsonl
refuses 2 "empty.jsonl has 0 rows of documents, which is too few" data chat empty.jsonl bad.h5 -tokenizer folder
rm folder/tokenizer.json
refuses 2 "folder/tokenizer.json: No such file or directory" data chat chat.jsonl bad.h5 -tokenizer folder
finish
