"""Tokens of Renga beside those of the library tokenizers, of tokenizer.json of many kinds, on odd texts.

usage: tokens.py RENGA FOLDER [KIND]…      works in FOLDER; without names all KINDs
"""
import json
import random
import subprocess
import sys
import unicodedata

import h5py
import tokenizers as tk
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

PLAIN = """In the beginning the world was void, and we'll say it's so: they've 12345 apples, 7 pears & 3.14159 pies.
    def main(argc, argv):\n\treturn {"a": [1, 2, 3]}  # comment\n\n\nNaïve café, Ünïcödé, ﬁne ① ½ ﬀ, Ｆｕｌｌ ｗｉｄｔｈ; e\u0301 versus \u00e9; İstanbul ΣΑΣ ß ǅ.
日本語のテキスト、中文文本，한국어 텍스트 각 가각. العربية עברית हिन्दी ไทย. 🙂👩‍👩‍👧‍👦🇫🇷👍🏽 \u00a0nbsp \u2003em \u200bzw\u200d \ufeffbom\r\nwin\rmac\x0b\x0c
"""
WORDS = "the of and to in that it is was for on are as with his they at be this from I have or by one had not but what all were".split()
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


OLD = unicodedata.ucd_3_2_0  # signs of which all versions of Unicode say the same


def texts():
    """What is learned from, and what is encoded."""
    rng = random.Random(3)
    learned = [PLAIN] + [" ".join(rng.choices(WORDS, k=12)) + ".\n" for _ in range(200)]
    odd = ["", " ", "\n", "   ", "\n\n\n", " a", "a ", "  two  blanks  ", "\t\ttabs\t", "don't DON'T we'Ll", "1234567890 12 1a2",
           "<s>hello</s>", "a<mask>b", "a <mask> b", "x<end>  y", "\u0130\u0131", "q\u0323\u0307 q\u0307\u0323 \u1e0b\u0323", "\ud55c\u1100\u1161\u11a8",
           "\u2581under\u2581score", "<0x41>", "a" * 300, "é" * 120, "\U0001f642" * 9, "word\u00adsoft", "0\u0000".replace("\x00", ""), "\u0928\u093f", "\u212b \u2126",
           "\u0344\u0958\ufb1d", "ﷺ", "\uff21\u3000\u3042", "\u1d400", "unknown \U000e0041 \U0010fffd"]
    signs = list(PLAIN) + ["\u0301", "\u0323", "\u0308", "\u1e9b", "\u3099", "ー", "'", "'s", "\u2028", "\x85", "#", "##"]
    for _ in range(150):
        odd.append("".join(rng.choices(signs, k=rng.randint(1, 40))))
    for _ in range(40):
        odd.append("".join(c for c in map(chr, (rng.randint(1, 0x2FFF) for _ in range(20))) if OLD.category(c) != "Cn"))
    return learned, [PLAIN] + odd


def trained(model, trainer, learned, normalizer=None, splitter=None, **more):
    t = tk.Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    if splitter:
        t.pre_tokenizer = splitter
    t.train_from_iterator(learned, trainer)
    t.add_special_tokens([tk.AddedToken("<end>", rstrip=True, special=True), tk.AddedToken("<mask>", lstrip=True, special=True)])
    t.add_tokens([tk.AddedToken("hello", single_word=True, normalized=True)])
    return json.loads(t.to_str())


def of_bytes(learned, pattern, normalizer=None, **changes):
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=changes.pop("prefix", False), use_regex=pattern is None)
    if pattern:
        splitter = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), splitter])
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>", "</s>"])
    file = trained(models.BPE(), trainer, learned, normalizer, splitter)
    file["decoder"] = json.loads(decoders.ByteLevel().__getstate__())
    file["model"].update(changes)
    return file


def of_signs(learned, normalizer, splitter=None, **changes):
    """As Llama 2 and Gemma: bytes of what has no token."""
    fallback = [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=["<unk>", "<s>", "</s>", *fallback], limit_alphabet=90)
    mid = pre_tokenizers.Split("▁", "merged_with_next")
    file = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), trainer, learned, normalizer, mid)
    file["pre_tokenizer"] = json.loads(splitter.__getstate__()) if splitter else None
    file["added_tokens"] = [t for t in file["added_tokens"] if not t["content"].startswith("<0x")]
    back = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    file["decoder"] = json.loads(back.__getstate__())
    file["model"].update(changes)
    return file


def likeliest(learned, normalizer, splitter, **changes):
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>")
    file = trained(models.Unigram(), trainer, learned, normalizer, splitter)
    file["model"].update(changes)
    return file


def precompiled(learned, folder):
    """As T5 and XLM-R: the normalizer of a model of sentencepiece."""
    try:
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2 as proto
    except ImportError:
        return None
    with open(folder + "/learned.txt", "w", encoding="utf-8") as out:
        out.writelines(learned)
    sentencepiece.SentencePieceTrainer.train(
        input=folder + "/learned.txt", model_prefix=folder + "/spm", vocab_size=300, hard_vocab_limit=False, minloglevel=2)
    model = proto.ModelProto()
    with open(folder + "/spm.model", "rb") as file:
        model.ParseFromString(file.read())
    t = tk.Tokenizer(models.Unigram([(p.piece, p.score) for p in model.pieces], 0))
    t.normalizer = normalizers.Sequence([
        normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return json.loads(t.to_str())


def wordpiece(learned, **normal):
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[UNK]", "[CLS]", "[SEP]"], limit_alphabet=100)
    return trained(models.WordPiece(unk_token="[UNK]"), trainer, learned, normalizers.BertNormalizer(**normal), pre_tokenizers.BertPreTokenizer())


def kinds(learned, folder):
    llama2 = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    gemma = normalizers.Replace(" ", "▁")
    meta = pre_tokenizers.Metaspace
    return {
        "gpt2": lambda: of_bytes(learned, None),
        "roberta": lambda: of_bytes(learned, None, prefix=True),
        "llama3": lambda: of_bytes(learned, LLAMA3, ignore_merges=True),
        "qwen2": lambda: of_bytes(learned, QWEN, normalizers.NFC()),
        "o200k": lambda: of_bytes(learned, O200K),
        "starcoder": lambda: {**of_bytes(learned, None), "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}},
        "llama2": lambda: of_signs(learned, llama2),
        "gemma": lambda: of_signs(learned, gemma, pre_tokenizers.Split(" ", "merged_with_previous")),
        "mistral": lambda: of_signs(learned, None, meta(prepend_scheme="first", split=False)),
        "unknown": lambda: of_signs(learned, llama2, byte_fallback=False),
        "apart": lambda: of_signs(learned, llama2, byte_fallback=False, fuse_unk=False),
        "unigram": lambda: likeliest(learned, normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]), meta()),
        "unigram-first": lambda: likeliest(learned, normalizers.NFC(), meta(prepend_scheme="first")),
        "unigram-strip": lambda: likeliest(learned, normalizers.Strip(), meta(prepend_scheme="never")),
        "t5": lambda: precompiled(learned, folder),
        "bert": lambda: wordpiece(learned),
        "bert-cased": lambda: wordpiece(learned, lowercase=False),
        "bert-plain": lambda: wordpiece(learned, clean_text=False, handle_chinese_chars=False, strip_accents=False),
        "white": lambda: {**wordpiece(learned), "pre_tokenizer": {"type": "Whitespace"}},
    }


def encode(renga, folder, path, text):
    """The tokens of a text, behind two words, as a set has two tokens at least."""
    with open(folder + "/text.txt", "w", encoding="utf-8", newline="") as out:
        out.write(text)
    words = ["data", "text", folder + "/text.txt", folder + "/tokens.h5", "-sequence", "1", "-vocabulary_file", path, "-overwrite", "1"]
    done = subprocess.run([renga, *words], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(path + ": " + done.stdout + done.stderr + repr(text))
    with h5py.File(folder + "/tokens.h5") as data:
        return data["training"][()].tolist()


def check(renga, folder, name, file, odd):
    """All texts behind each other, and the first of them."""
    path = folder + "/" + name + ".json"
    with open(path, "w", encoding="utf-8") as out:
        json.dump(file, out, ensure_ascii=False)
    theirs, bad, count = tk.Tokenizer.from_file(path), 0, 0
    for text in "\n".join(odd) + "\nend of all of it\n" * 3, odd[0], "".join(odd[1:]):
        ids, mine = theirs.encode(text, add_special_tokens=False).ids, encode(renga, folder, path, text)
        count += len(ids)
        if mine == ids:
            continue
        bad += 1
        at = next((i for i, (a, b) in enumerate(zip(mine, ids)) if a != b), min(len(mine), len(ids)))
        print(f"{name}: token {at} of {repr(text)[:30]}: ", *([theirs.id_to_token(i) for i in t[max(0, at - 3):at + 4]] for t in (mine, ids)))
    print("good" if not bad else "BAD ", f"{name:14}", count, "tokens", flush=True)
    return bad


def main():
    renga, folder, *names = sys.argv[1:]
    learned, odd = texts()
    makers, bad = kinds(learned, folder), 0
    for name in names or makers:
        file = makers[name]()
        if file is None:
            print("skip", name, "needs sentencepiece")
            continue
        bad += check(renga, folder, name, file, odd)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
