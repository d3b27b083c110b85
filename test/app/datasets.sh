#!/bin/sh
# Every kind of data set: made, trained with on two layouts to the same bits; and what is refused.
. "${0%/*}/common.sh"

# same NAME RANKS ARGUMENT... -- LAYOUT...: the digest with a layout is that on one rank.
same() {
  name=$1
  on=$2
  shift 2
  accepts 1 "$@" -parameter_digest -progress none
  digest=$(digest)
  accepts "$on" "$@" -parameter_digest -progress none $layout
  says "$digest"
}

# Text in a vocabulary; the next token, masked tokens, a text from the network.
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%s", (i % 7 ? "In the " : "beginning of\n") }' >text.txt
accepts 2 data text text.txt text.h5 -sequence 16 -vocabulary 300 -vocabulary_save kept -data_validation 0.1
says "samples of 16 tokens of"
accepts 1 data text text.txt again.h5 -sequence 16 -vocabulary_file kept -data_validation 0.1
accepts 1 data text text.txt third.h5 -sequence 16 -vocabulary_file text.h5
small=gpt:layers=2,hidden=16,heads=2,sequence=16,vocabulary=300
steps="-batch_size 8 -microbatch_size 2 -steps 3 -seed 3"
layout="-layout_pipeline 2"
same tokens 2 train -graph $small -data text.h5,again.h5 $steps -eval_samples 20
says "accuracy"
same "other files for validation" 2 train -graph $small -data again.h5 -eval third.h5 $steps
says "validation loss"
accepts 2 train -graph $small -data text.h5 $steps -layout_pipeline 2 -checkpoint_dir t
newest=$(ls t/*.h5 | tail -n 1)
accepts 2 generate -graph $small -checkpoint "$newest" -prompt "In the" -tokens 5 -vocabulary_file kept
says "In the"
cp out first
accepts 1 generate -graph $small -checkpoint "$newest" -prompt "In the" -tokens 5 -vocabulary_file text.h5
equal_files out first "the text differs on another layout"
bert=bert:layers=2,hidden=16,heads=2,sequence=16,vocabulary=300
same "masked tokens" 2 train -graph $bert -data text.h5 -data_masking 0.2 $steps

# A damaged file is named in one line, without what HDF5 would print of itself.
LC_ALL=C sed 's/HEAP/HEAQ/' text.h5 >damaged.h5
refuses 2 "data set damaged.h5 cannot be opened: bad local heap signature" train -graph $small -data damaged.h5 $steps
lacks HDF5-DIAG

# A tokenizer.json instead of a vocabulary of our own.
tokenizer=${top_srcdir:-.}/test/data/tokenizer.json
accepts 2 data text text.txt hugging.h5 -sequence 16 -vocabulary_file "$tokenizer"
says "samples of 16 tokens of 281 kinds"
accepts 2 train -graph gpt:layers=1,hidden=16,heads=2,sequence=16,vocabulary=281 -data hugging.h5 $steps \
  -layout_pipeline 2 -checkpoint_dir h
accepts 2 generate -graph gpt:layers=1,hidden=16,heads=2,sequence=16,vocabulary=281 -checkpoint h \
  -prompt "In the" -tokens 5 -vocabulary_file hugging.h5
says "In the"

# Pairs, ratings, arrays, images.
awk 'BEGIN { for (i = 0; i < 40; i++) print "one", i % 7, "two" }' >source.txt
awk 'BEGIN { for (i = 0; i < 40; i++) print "uno", i % 7, "dos" }' >target.txt
accepts 1 data pairs source.txt target.txt pairs.h5 -sequence 10 -sequence_target 12 -vocabulary 280 \
  -data_validation 0.2
says "40 pairs"
same pairs 2 train $steps -data pairs.h5 \
  -graph transformer:layers=1,hidden=16,heads=2,sequence=10,target=12,vocabulary=280
awk 'BEGIN { print "user,item,rating"; for (i = 0; i < 60; i++) print i % 5, ",", (i * 7) % 11, ",3.5" }' >ratings.csv
accepts 1 data ratings ratings.csv ratings.h5
says "5 users and 11 items"
awk 'BEGIN { print "a,b,c,d,e,f,g,h,kind"; for (i = 0; i < 40; i++) {
  for (k = 0; k < 8; k++) printf "%d,", (i * (k + 3)) % 7; print "k" i % 4 } }' >table.csv
accepts 2 data csv table.csv table.h5 -data_label kind -data_validation 0.1
says "40 rows, x of 8 columns, 4 classes"
same table 2 train $steps -data table.h5 -graph $mlp
refuses 2 "what is to be learned?" data csv table.csv o.h5
refuses 2 "has no column knd; did you mean kind?" data csv table.csv o.h5 -data_label knd
awk 'BEGIN { for (i = 0; i < 30; i++) print 10 + i % 5 "::" (i * i) % 13 }' >seen.txt
accepts 1 data ratings seen.txt seen.h5 -data_negatives 3 -seed 5
says "120 samples of 5 users"
same ratings 2 train $steps -data seen.h5 -graph ncf:users=5,items=13
/usr/bin/env python3 - 2>/dev/null <<'PYTHON' || printf 'no python\n' >no-python
import struct
def put(name, descr, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    header += ' ' * (-(len(header) + 11) % 64) + '\n'
    open(name, 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode() + data)
n = 24
put('x.npy', '>f4', '(%d, 8)' % n, struct.pack('>%df' % (8 * n), *[i % 5 for i in range(8 * n)]))
put('labels.npy', '<i2', '(%d,)' % n, struct.pack('<%dh' % n, *[i % 4 for i in range(n)]))
put('short.npy', '<i2', '(%d,)' % (n + 1), struct.pack('<%dh' % n, *[i % 4 for i in range(n)]))
put('fewer.npy', '|u1', '(%d,)' % (n - 1), bytes(n - 1))
put('complex.npy', '<c8', '(%d,)' % n, bytes(8 * n))
put('bad-label.npy', '|u1', '(%d,)' % n, bytes([4] * n))
put('nothing.npy', '|u1', '(0,)', b'')
put('negative.npy', '|u1', '(-3,)', bytes(3))
put('deep.npy', '|u1', '(1,1,1,1,1,1,1,1,1,1)', bytes(1))
open('other.npy', 'wb').write(b'not an array, but long enough for one')
open('huge-header.npy', 'wb').write(b'\x93NUMPY\x02\x00\xff\xff\xff\x7f{')
PYTHON
if [ ! -e no-python ]; then
  accepts 1 data npy x.npy labels.npy arrays.h5
  same arrays 2 train $steps -data arrays.h5 -graph $mlp
  refuses 2 "array short.npy is said to be int16[25], 50 bytes, but 48 follow" data npy short.npy o.h5
  refuses 2 "arrays x.npy and fewer.npy do not belong together: 24 samples, 23" data npy x.npy fewer.npy o.h5
  refuses 2 "array complex.npy is of type" data npy complex.npy o.h5
  refuses 2 "array nothing.npy, uint8[0], is empty" data npy nothing.npy o.h5
  refuses 2 "array negative.npy: its shape" data npy negative.npy o.h5
  refuses 2 "array deep.npy: its shape" data npy deep.npy o.h5
  refuses 2 "other.npy is no array of NumPy" data npy other.npy o.h5
  refuses 2 "a header of 2147483647 bytes" data npy huge-header.npy o.h5
  refuses 2 "array no.npy: No such file" data npy no.npy o.h5
  refuses 2 "array .: Is a directory" data npy . o.h5
  accepts 1 data npy x.npy bad-label.npy bad.h5
  tellers=2
  refuses 2 "of bad.h5, input labels: 4 is none of the 4 classes, 0 to 3" train -graph $mlp -data bad.h5 $steps
  [ $code -eq 9 ] || fail "exit code $code of a label that is no class"
  refuses 2 "of bad.h5, input labels: 4 is" train -graph $mlp -data arrays.h5,bad.h5 -steps 6 -batch_size 8
  refuses 2 "of bad.h5, input labels: 4 is none of the 4 classes, 0 to 3" train -graph $mlp -data "arrays.h5,bad.h5" -data_validation 0.4 -steps 1 -batch_size 24
  tellers=1
  accepts 1 data npy labels.npy only.h5
  refuses 2 "has no dataset for input" train -graph $mlp -data only.h5 $steps
fi

# Folders of images.
mkdir -p pictures/empty
refuses 2 "folder pictures holds no images: files that end in .png" data images pictures o.h5
refuses 2 "folder pictures/empty holds no folders" data images pictures/empty o.h5
refuses 2 "folder none: No such file" data images none o.h5
refuses 2 "-data_image_size 24: write height and width" data images pictures o.h5 -data_image_size 24
refuses 2 "renga data images: -data_validation 0.5 and a second folder are both given" data images pictures pictures o.h5 -data_validation 0.5
refuses 2 "renga data csv does not use -data_image_size" data csv table.csv o.h5 -data_label kind \
  -data_image_size 2x2
echo no >pictures/empty/a.png
refuses 2 "image pictures/empty/a.png: its content is that of no picture that is known" data images pictures o.h5

# Text and vocabularies.
: >empty.txt
refuses 2 "text empty.txt of 0 bytes is too short" data text empty.txt o.h5
refuses 2 "text empty.txt of 0 tokens is too short" data text empty.txt o.h5 -vocabulary 300
refuses 2 "a vocabulary of 100 kinds of tokens; it has at least 260" data text text.txt o.h5 -vocabulary 100
refuses 2 "text.txt is no vocabulary" data text text.txt o.h5 -vocabulary_file text.txt
refuses 2 "-vocabulary and -vocabulary_file are both given: make a vocabulary or take one" data text text.txt o.h5 -vocabulary 300 -vocabulary_file kept
refuses 2 "-vocabulary_save v: there is no vocabulary" data text text.txt o.h5 -vocabulary_save v
accepts 1 data text text.txt bytes.h5 -sequence 16
refuses 2 "bytes.h5 has no vocabulary" data text text.txt o.h5 -vocabulary_file bytes.h5
refuses 2 "has no token to mask with" train -graph $bert -data bytes.h5 -data_masking 0.1 $steps
refuses 2 "-data_masking 0.1: data set ratings.h5 is no set of tokens" train -graph $mlp \
  -data ratings.h5 -data_masking 0.1 $steps
refuses 2 "-data_masking 1: must be from 0 to 0.999" train -graph $bert -data text.h5 -data_masking 1 $steps
refuses 2 "data set bytes.h5 has 256 kinds of tokens in samples of 16, text.h5 275 in samples of 16; their vocabularies differ" train -graph $small -data text.h5,bytes.h5 $steps
refuses 2 "data set text.h5 has 275 kinds of tokens; input tokens of the network takes 260" train -data text.h5 $steps \
  -graph gpt:layers=1,hidden=16,heads=2,sequence=16,vocabulary=260
refuses 2 "renga generate writes bytes" generate -graph $small -checkpoint "$newest"
refuses 2 "data set again.h5 has a validation part already; leave out -data_validation" train -graph $small -data again.h5 -eval third.h5 -data_validation 0.1 $steps
refuses 2 "data set none-*.h5: no file fits" train -graph $small -data "none-*.h5" $steps
refuses 2 "data set none.h5: No such file or directory" train -graph $small -data text.h5 -eval none.h5 $steps

# Aligned texts and ratings.
refuses 2 "renga data pairs needs -vocabulary KINDS, or -vocabulary_file FILE" data pairs source.txt target.txt o.h5
refuses 2 "it is not known which token begins a target: give -tokenizer FOLDER" data pairs source.txt target.txt o.h5 -vocabulary_file "$tokenizer"
# A folder of Hugging Face: its tokenizer, what this puts around texts, and what targets begin with.
mkdir folder
echo '{"pad_token_id": 5}' >folder/config.json
cp "$tokenizer" folder
refuses 2 "puts no token behind a text, so that targets would have no end" data pairs source.txt target.txt o.h5 -tokenizer folder
frame='"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "end"}}], "special_tokens": {"end": {"ids": [0]}}}'
sed "s/\"post_processor\":null/$frame/" "$tokenizer" >folder/tokenizer.json
accepts 2 data pairs source.txt target.txt framed.h5 -tokenizer folder -sequence 12
says "40 pairs of at most 12 and 12 tokens of 281 kinds"
refuses 2 "-tokenizer and -vocabulary_file are both given" data pairs source.txt target.txt o.h5 -tokenizer folder -vocabulary_file x
cat >folder/config.json <<'END'
{"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
 "vocab_size": 281, "max_position_embeddings": 64, "rms_norm_eps": 1e-6}
END
accepts 2 train -graph hf:folder,sequence=16 -data hugging.h5 $steps -layout_pipeline 2 -checkpoint_dir f
accepts 2 generate -graph hf:folder,sequence=32 -checkpoint f -prompt "In the" -tokens 5 -generate_format jsonl -layout_pipeline 2
says '"prompt":"In the"' ',0],"text":"'
accepts 1 generate -graph hf:folder,sequence=32 -checkpoint f -prompt_tokens 7,8 -tokens 5 -generate_format jsonl
lacks '"text"'
head -n 39 target.txt >fewer.txt
refuses 2 "are not aligned: fewer.txt ends after 39 lines" data pairs source.txt fewer.txt o.h5 -vocabulary 280
refuses 2 "have 0 pairs of lines" data pairs empty.txt empty.txt o.h5 -vocabulary 280
echo "1 2 3
1 two 3" >wrong.txt
refuses 2 'ratings wrong.txt, line 2: a user and an item' data ratings wrong.txt o.h5
refuses 2 "has no line of ratings" data ratings empty.txt o.h5
echo "1 1
1 2" >all.txt
refuses 2 "user 1 has rated all 2 items" data ratings all.txt o.h5 -data_negatives 1
refuses 2 "no-folder/o.h5 cannot be written" data ratings seen.txt no-folder/o.h5

# Files that are broken.
head -c 3000 text.h5 >cut.h5
refuses 2 "data set cut.h5 cannot be opened: truncated file: eof = 3000" train -graph $small -data cut.h5 $steps
head -c 500 /dev/zero >zeros.h5
refuses 2 "zeros.h5 is not an HDF5 file" train -graph $small -data zeros.h5 $steps
printf 'not an idx file' | gzip >images.gz
refuses 2 "images.gz is no IDX file" data idx images.gz images.gz o.h5
refuses 2 "data set pairs.h5 holds arrays, text.h5 tokens: they are no one set" train -graph $small -data text.h5,pairs.h5 $steps
[ ! -e o.h5 ] || fail "o.h5 was made"
ls ./*.tmp 2>/dev/null && fail "temporary files are left"
finish
