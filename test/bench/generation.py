"""Tokens of renga generate beside those of transformers: time of the processor for a token, of a short run and a long one.

usage: generation.py RENGA FOLDER [PAIRS [LONG]]      makes small random networks in FOLDER; one thread each, in turn
"""
import os
import resource
import statistics
import subprocess
import sys
import time

import torch
import transformers

SHORT, PROMPT = 8, list(range(5, 21))
SIZES = dict(hidden=256, inside=688, layers=4, heads=8, kinds=4096), dict(hidden=768, inside=2048, layers=6, heads=12, kinds=16384)


def gpt2(s):
    config = transformers.GPT2Config(vocab_size=s["kinds"], n_embd=s["hidden"], n_layer=s["layers"], n_head=s["heads"], n_positions=256)
    return transformers.GPT2LMHeadModel(config)


def llama(s):
    shape = dict(hidden_size=s["hidden"], intermediate_size=s["inside"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"])
    config = transformers.LlamaConfig(vocab_size=s["kinds"], num_key_value_heads=4, max_position_embeddings=256, **shape)
    return transformers.LlamaForCausalLM(config)


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(renga, folder, tokens, *more):
    words = ["generate", "-graph", f"hf:{folder},sequence=256", "-checkpoint", folder, "-temperature", "0"]
    words += ["-prompt_tokens", ",".join(map(str, PROMPT)), "-tokens", str(tokens), *more]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    begin = processor_seconds()
    done = subprocess.run([renga, *words], env=environment, capture_output=True, text=True, check=True)
    return processor_seconds() - begin, [int(word) for word in done.stdout.split()]


def write(model, tokens):
    given = torch.tensor([PROMPT])
    how = {"max_new_tokens": tokens, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    begin = time.process_time()
    written = model.generate(given, attention_mask=torch.ones_like(given), **how)[0].tolist()
    return time.process_time() - begin, written


def compare(renga, folder, model, pairs, long):
    def milliseconds(measure):
        return 1e3 * (measure(long) - measure(SHORT)) / (long - SHORT)

    write(model, SHORT)
    assert run(renga, folder, long)[1] == write(model, long)[1], "other tokens"
    ways = {
        "renga": lambda tokens: run(renga, folder, tokens)[0],
        "renga -microbatch_size 1": lambda tokens: run(renga, folder, tokens, "-microbatch_size", "1")[0],
        "transformers": lambda tokens: write(model, tokens)[0],
    }
    rows = [{name: milliseconds(way) for name, way in ways.items()} for _ in range(pairs)]
    for name in ways:
        ratios = [row["transformers"] / row[name] for row in rows]
        middle = statistics.median(row[name] for row in rows)
        print(f"{folder} {name}: {middle:.2f} ms, {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def main(renga, folder, pairs=3, long=200):
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for size in SIZES:
        for make in gpt2, llama:
            torch.manual_seed(1)
            model, name = make(size).eval(), f"{folder}/{make.__name__}-{size['hidden']}"
            model.save_pretrained(name)
            compare(renga, name, model, int(pairs), int(long))


if __name__ == "__main__":
    main(*sys.argv[1:])
