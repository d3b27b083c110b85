"""Conversations in Renga and in transformers: tokens of apply_chat_template, and labels of the assistant's turns.

usage: chat.py RENGA FOLDER      works in FOLDER
"""
import json
import os
import subprocess
import sys

import h5py
import transformers

import tokens as tk

ROW = 512
ALTERNATE = "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}"
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    + ALTERNATE + "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}"
    "{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content | trim + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content | trim + ' ' + eos_token }}{% endif %}{% endfor %}")
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
    "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
"""
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}" + ALTERNATE + "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_tokenEND}}{% endif %}{% endfor %}")
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}" + ALTERNATE + "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}")
GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
"""
PHI3 = (
    "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n"
    "{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
QWEN2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}"
    "{% endif %}" + CHATML.split("%}", 1)[1])
QWEN25 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
"""
IM, HEADER, TURN = ["<|im_start|>", "<|im_end|>"], ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], ["<start_of_turn>", "<end_of_turn>"]
TAGS = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
# kind of tokenizer, template, its special tokens, has it turns of the system
CHATS = {
    "chatml": ("gpt2", CHATML, IM, True),
    "qwen2": ("qwen2", QWEN2, IM, True),
    "qwen25": ("qwen2", QWEN25, IM, True),
    "llama3": ("llama3", LLAMA3, HEADER, True),
    "llama31": ("llama3", LLAMA31, HEADER, True),
    "llama2": ("llama2", LLAMA2, [], True),
    "mistral1": ("llama2", MISTRAL.replace("END", " + ' '"), [], False),
    "mistral2": ("mistral", MISTRAL.replace("END", ""), [], False),
    "gemma": ("gemma", GEMMA, TURN, False),
    "gemma3": ("gemma", GEMMA3, TURN, True),
    "phi3": ("llama2", PHI3, TAGS, True),
    "zephyr": ("llama2", ZEPHYR, [], True),
}


def conversations(system):
    def said(*contents, first=None):
        turns = [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(contents)]
        return ([{"role": "system", "content": first}] if first is not None and system else []) + turns

    return [
        said("What is the time?", "It is ten.", first="Be brief."),
        said("  blanks\n", " around \u00a0\n", "and \u00e9\U0001f642\u65e5\u672c", "the end </s> [INST] x", first=" a system \n"),
        said("one", "two", "three", "four\n\nfive\tsix"),
        said("", "", first=""),
        said("a<|im_end|>b<|eot_id|>", "1234567 'll the"),
    ]


def check(renga, folder, name):
    kind, template, special, system = CHATS[name]
    folder = f"{folder}/{name}"
    os.makedirs(folder, exist_ok=True)
    learned, _ = tk.texts()
    file = tk.kinds(learned, folder)[kind]()
    with open(folder + "/plain.json", "w", encoding="utf-8") as out:
        json.dump(file, out)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=folder + "/plain.json", bos_token="<s>", eos_token="</s>")
    theirs.add_special_tokens({"additional_special_tokens" if int(transformers.__version__[0]) < 5 else "extra_special_tokens": special})
    theirs.chat_template = template
    theirs.save_pretrained(folder)
    with open(folder + "/chat.jsonl", "w", encoding="utf-8") as out:
        for chat in conversations(system):
            out.write(json.dumps({"messages": chat}, ensure_ascii=False) + "\n\n")
    words = ["data", "chat", folder + "/chat.jsonl", folder + "/chat.h5", "-tokenizer", folder, "-sequence", str(ROW), "-overwrite", "1"]
    done = subprocess.run([renga, *words], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(name + done.stdout + done.stderr)
    bad = count = 0
    with h5py.File(folder + "/chat.h5") as data:
        rows = list(zip(data["training/tokens"][()].tolist(), data["training/labels"][()].tolist(), strict=True))
    for number, (chat, (tokens, labels)) in enumerate(zip(conversations(system), rows, strict=True)):
        ids = theirs.apply_chat_template(chat, tokenize=True, return_dict=False)
        count += len(ids)
        learned = [label for label in labels if label != -100]
        answers = [turn["content"] for turn in chat if turn["role"] == "assistant"]
        said = theirs.decode(learned).replace("▁", "")
        wanted = "".join(answer.strip() for answer in answers)
        for end in [*special, "</s>"]:
            said = said.replace(end, "")
            wanted = wanted.replace(end, "")
        same = tokens[: len(ids)] == ids and all(label in (-100, token) for label, token in zip(labels, tokens[1:]))
        said, wanted = ("".join(text.split()) for text in (said, wanted))
        if not same or said != wanted or len(learned) < len(answers):
            bad += 1
            at = next((i for i, (a, b) in enumerate(zip(tokens, ids)) if a != b), len(ids))
            print(f"{name}: conversation {number} differs at {at}:", theirs.convert_ids_to_tokens(tokens[max(0, at - 3) : at + 5]),
                  theirs.convert_ids_to_tokens(ids[max(0, at - 3) : at + 5]), repr(said), repr(wanted))
    print("good" if not bad else "BAD ", f"{name:10}", count, "tokens", flush=True)
    return bad


def main():
    renga, folder, *names = sys.argv[1:]
    return 1 if sum(check(renga, folder, name) for name in names or CHATS) else 0


if __name__ == "__main__":
    sys.exit(main())
