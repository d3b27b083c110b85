#!/bin/sh
# The book: what its pages name is there, its commands run, and where Sphinx is here it is made without a warning.
top=$(cd "$top_srcdir" && pwd)
build=$(cd "$top_builddir" && pwd)
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
[ -z "$SANITIZERS" ] || { echo "sanitizers would say nothing new of these commands"; exit 77; }
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
status=0
mpiexec=$(command -v "${MPIEXEC:-mpiexec}") || { echo "no ${MPIEXEC:-mpiexec}"; exit 77; }
MPIEXEC=$mpiexec
export MPIEXEC

# Links, options, functions, commands that nothing runs.
python3 "$top/doc/book/check.py" "$top" "$build/renga" || status=1

# A page with one mistake of each kind is refused for each of them.
mkdir -p "$scratch/wrong/doc" "$scratch/wrong/include" "$scratch/wrong/src" "$scratch/wrong/examples" "$scratch/wrong/share/renga/machines"
cat >"$scratch/wrong/doc/page.md" <<'TXT'
# One heading
[here](nowhere.md), [there](#another-heading), `-layout_pipelin`, `RengaPipelineStop()`, `renga train -stepz 3`

```
renga info -graph mlp:sizes=4-3
```

```python
print(1)
```

```c alone.c
int main(void) { return 0; }
```

```c of README.md
int main(void) { return 1; }
```
TXT
touch "$scratch/wrong/README.md" "$scratch/wrong/examples/README.md"
python3 "$top/doc/book/check.py" "$scratch/wrong" "$build/renga" >"$scratch/out" && { echo "a page with mistakes is taken"; status=1; }
for mistake in "nowhere.md leads nowhere" "no heading #another-heading" "no option -layout_pipelin" "no header has RengaPipelineStop" \
  "no option -stepz" "a command that no test runs" "mark its block as python run" "no command of the page uses alone.c" "README.md has no such lines"; do
  grep -q -e "$mistake" "$scratch/out" || { echo "not found: $mistake"; cat "$scratch/out"; status=1; }
done

# What a header does not explain is named, and what it does is told on the page, with the members and who takes it.
cat >"$scratch/wrong/include/renga.h" <<'TXT'
typedef struct _p_RengaThing *RengaThing;

/* How large a thing is. */
typedef struct {
  double width; /* metres */
  double depth, height;
} RengaSize;
int RengaThingMeasure(RengaThing thing, RengaSize *size);
TXT
(cd "$scratch/wrong" && sh "$top/doc/typepages.sh" -check include/renga.h) >"$scratch/out" && { echo "a type without a comment is taken"; status=1; }
printf 'include/renga.h:1: RengaThing: no comment says what it is\ninclude/renga.h: RengaSize: no comment says what double depth, height is\n' |
  cmp -s - "$scratch/out" || { cat "$scratch/out"; status=1; }
mkdir "$scratch/man" "$scratch/wrong/tutorials" "$scratch/wrong/test" "$scratch/wrong/test/link"
sh "$top/doc/typepages.sh" "$scratch/man" 1 "$scratch/wrong/include/renga.h"
for line in 'RengaSize \\- How large a thing is' '.I double width' 'Metres.' 'RengaThingMeasure().'; do
  grep -qx -e "$line" "$scratch/man/RengaSize.3" || { echo "RengaSize.3 lacks $line"; cat "$scratch/man/RengaSize.3"; status=1; }
done

# A function that nothing calls is named; of one that is called the page shows the statement.
uncalled="include/renga.h: RengaThingMeasure: no tutorial, example or test calls it"
(cd "$scratch/wrong" && sh "$top/doc/examples.sh" -check) >"$scratch/out" && { echo "a function that nothing calls is taken"; status=1; }
[ "$(cat "$scratch/out")" = "$uncalled" ] || { cat "$scratch/out"; status=1; }
call='{\n  Check(RengaThingMeasure(thing,\n                          &size));\n}\n'
mkdir "$scratch/wrong/test/bench" # neither the library nor what only measures is an example
for file in src/thing.c test/bench/measure.c; do printf "$call" >"$scratch/wrong/$file"; done
(cd "$scratch/wrong" && sh "$top/doc/examples.sh" -check) >"$scratch/out" && { echo "a call that no test makes is an example"; status=1; }
printf "$call" >"$scratch/wrong/test/measure.c"
printf '.SH NAME\nRengaThingMeasure\n' >"$scratch/man/RengaThingMeasure.3"
(cd "$scratch/wrong" && sh "$top/doc/examples.sh" "$scratch/man") || { echo "no example is found"; status=1; }
for line in 'In test/measure.c:' 'Check(RengaThingMeasure(thing,' ' *&size));'; do
  grep -qx -e "$line" "$scratch/man/RengaThingMeasure.3" || { echo "no line $line"; cat "$scratch/man/RengaThingMeasure.3"; status=1; }
done

# The page of each public function says its errors, shows a call that a test makes, and where to read on.
sed -n -e 's|/\*.*||' -e '/^typedef/d' -e 's/^[A-Za-z].*[ *]\(Renga[A-Za-z0-9]*\)(.*/\1/p' "$top"/include/renga*.h | sort -u >"$scratch/functions"
[ "$(wc -l <"$scratch/functions")" -gt 500 ] || { echo "few public functions"; status=1; }
awk -v folder="$build/doc/man3" -v programs="$scratch/programs" '{
    page = folder "/" $1 ".3"
    example = program = ""
    split("", has)
    while ((getline line < page) > 0) {
      if (example && line ~ /^In .*:$/) program = substr(line, 4, length(line) - 4)
      example = line == ".SH EXAMPLES"
      if (line ~ /^\.SH /) has[substr(line, 5)] = 1
    }
    close(page)
    count = split("ERRORS,EXAMPLES,SEE ALSO", wanted, ",")
    for (i = 1; i <= count; i++) if (!(wanted[i] in has)) print "the page of " $1 " has no " wanted[i]
    if (!(program in first)) print first[program] = $1, program >programs
  }' "$scratch/functions" >"$scratch/out"
[ ! -s "$scratch/out" ] || { cat "$scratch/out"; status=1; }
while read -r name program; do
  case $program in test/bench/* | test/cuda/* | test/gpu/*) false ;; tutorials/* | examples/* | test/*) [ -e "$top/$program" ] ;; *) false ;; esac ||
    { echo "the example of $name is in $program, which no test runs"; status=1; }
done <"$scratch/programs"
[ "$(wc -l <"$scratch/programs")" -gt 50 ] || { echo "few programs are examples"; status=1; }

# What is missing is said in one sentence.
python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import book; book.MODULES = {"no_such_module": "python3-no-such"}; book.refuse_missing("html")' \
  "$top/doc/book" >"$scratch/out" 2>&1 && { echo "the book is made of what is not there"; status=1; }
[ "$(cat "$scratch/out")" = "the book needs packages that are not here: apt-get install python3-no-such" ] || { cat "$scratch/out"; status=1; }

# Without its packages the book says so; with them it is made, and no warning is left.
timeout 300 python3 "$top/doc/book/book.py" "$top" "$build" html >"$scratch/out" 2>&1
code=$?
if grep -q 'the book needs packages that are not here: apt-get install ' "$scratch/out"; then
  [ "$(wc -l <"$scratch/out")" -eq 1 ] && [ $code -ne 0 ] || { cat "$scratch/out"; status=1; }
  echo "no Sphinx: the book is not made"
elif [ $code -ne 0 ] || [ ! -s "$build/doc/book/html/index.html" ]; then
  echo "the book is not made:"
  cat "$scratch/out"
  status=1
else
  # Every option, every public function and every type has its place in it.
  "$build/renga" train -help | sed -n 's/^  -\([a-z0-9_]*\) .*/option-\1/p' | tr _ - >"$scratch/names"
  sed -n -e 's|/\*.*||' -e 's/^[A-Za-z].*[ *]\(Renga[A-Za-z]*\)(.*/\1/p' "$top"/include/renga*.h | grep -v '^#' | tr '[:upper:]' '[:lower:]' |
    sed 's/^/function-/' >>"$scratch/names"
  sed -n 's/^} \(Renga[A-Za-z]*\);.*/\1/p' "$top"/include/renga*.h | tr '[:upper:]' '[:lower:]' | sed 's/^/function-/' >>"$scratch/names"
  cat "$build"/doc/book/html/options.html "$build"/doc/book/html/functions-*.html | grep -o 'id="[a-z0-9_-]*"' | sort -u >"$scratch/ids"
  [ "$(wc -l <"$scratch/names")" -gt 500 ] || { echo "few options and functions"; status=1; }
  sed 's/.*/id="&"/' "$scratch/names" | grep -vxF -f "$scratch/ids" | sed 's/^/the book lacks /' >"$scratch/out"
  [ ! -s "$scratch/out" ] || { cat "$scratch/out"; status=1; }
  # Who searches finds the answers to questions that readers have.
  python=python3
  python3 -c 'import sphinx' 2>/dev/null || python=/usr/bin/python3
  $python "$top/doc/book/search.py" "$build/doc/book/html/searchindex.js" "$top/doc/book/questions.txt" || status=1
fi

# What stands in for programs and packages that the commands use.
bin=$scratch/bin
mkdir "$bin"
cp "$top/test/app/book/renga" "$top/test/app/book/mpiexec" "$top/test/app/book/ssh" "$top/test/app/book/sbatch" "$bin"
printf '#!/bin/sh\necho "10.0.0.$$ STREAM"\n' >"$bin/getent"
printf '#!/bin/sh\necho "10.0.0.1 dev eth0 src 10.0.0.2"\n' >"$bin/ip"
ln -s "$top/share" "$scratch/share"
cp "$bin/mpiexec" "$bin/srun"
chmod +x "$bin"/*
PATH=$bin:$PATH MPIEXEC=mpiexec timeout "${RENGA_TEST_LIMIT:-150}" "$bin/mpiexec" -n 1 true >"$scratch/out" 2>&1
[ $? -eq 2 ] || { echo "the launcher that stands in takes itself for the true one"; status=1; }
for name in apt-get sudo pip sinfo squeue qsub; do printf '#!/bin/sh\n:\n' >"$bin/$name"; chmod +x "$bin/$name"; done
cat >"$bin/bible" <<'TXT'
#!/bin/sh
for verse in 1 2 3 4 5 6 7 8 9; do for chapter in 1 2 3 4 5 6 7 8 9; do
  echo "$chapter Genesis $chapter:$verse In the beginning God created the heaven and the earth, and verse $verse of chapter $chapter."
done; done
TXT
cat >"$bin/diatheke" <<'TXT'
#!/bin/sh
for verse in 1 2 3 4 5 6 7 8 9; do for chapter in 1 2 3 4 5 6 7 8 9; do
  echo "Genesis $chapter:$verse: En el principio crio Dios los cielos y la tierra, y el verso $verse de $chapter."
done; done
TXT
archive=$build/src/binding/fortran/librenga_fortran.a
cat >"$bin/pkg-config" <<TXT
#!/bin/sh
case "\$*" in *renga-fortran*) echo "-I$build/src/binding/fortran $archive" ;; esac
echo "-I$top/include -L$build/.libs -lrenga -Wl,-rpath,$build/.libs" \$(/usr/bin/pkg-config --cflags --libs mpich 2>/dev/null)
TXT
chmod +x "$bin"/*

# Where a compiler is not here, nothing is compiled.
if ! { [ -e "$archive" ] && command -v mpifort.mpich >/dev/null; }; then
  echo "no module of Fortran: its program is not run"
  printf '#!/bin/sh\nprintf ":\\n" >heat; chmod +x heat\n' >"$bin/mpifort.mpich"
  chmod +x "$bin/mpifort.mpich"
fi
command -v c++ >/dev/null || { printf '#!/bin/sh\necho no C++ compiler\nprintf ":\\n" >handles; chmod +x handles\n' >"$bin/c++"; chmod +x "$bin/c++"; }

# Files that the pages take as given.
given() {
  python3 - "$top" <<'PY'
import gzip, json, os, shutil, struct, sys
top = sys.argv[1]
shutil.copy(top + "/test/reference/networks/mlp_export.onnx", "net.onnx")
columns = [f"c{i}" for i in range(20)]
with open("table.csv", "w") as table:
    print(",".join(columns + ["class"]), file=table)
    for row in range(256):
        print(",".join(str((row * 37 + i * 11) % 101 / 101) for i in range(20)) + f",{row % 7}", file=table)
def idx(name, *shape):
    count = 1
    for extent in shape: count *= extent
    data = bytes(i % 251 for i in range(count)) if len(shape) > 1 else bytes(i % 10 for i in range(count))
    with gzip.open(name, "wb") as file:
        file.write(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data)
for part, samples in (("train", 128), ("t10k", 16)):
    idx(f"{part}-images-idx3-ubyte.gz", samples, 28, 28)
    idx(f"{part}-labels-idx1-ubyte.gz", samples)
letters = "abcdefghijklmnopqrstuvwxyz"
vocabulary = ["[UNK]", "<|end_of_text|>", *letters, *(f"##{letter}" for letter in letters)]
with open("tokenizer.json", "w") as file:
    json.dump({"added_tokens": [{"id": 1, "content": "<|end_of_text|>", "special": True, "normalized": False,
                                 "single_word": False, "lstrip": False, "rstrip": False}],
               "pre_tokenizer": {"type": "BertPreTokenizer"},
               "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                         "max_input_chars_per_word": 100,
                         "vocab": {word: number for number, word in enumerate(vocabulary)}}}, file)
with open("articles.txt", "w") as file:
    for article in range(60): file.write("in the beginning "[:5 + article % 12] + "<|end_of_text|>")
with open("chat.jsonl", "w") as file:
    for turn in range(40):
        file.write(json.dumps({"messages": [{"role": "user", "content": f"what is {turn}"},
                                            {"role": "assistant", "content": f"it is {turn} " * 20}]}) + "\n")
os.mkdir("Llama-3.2-1B-Instruct")
shutil.copy(top + "/test/data/tokenizer.json", "Llama-3.2-1B-Instruct")
with open("Llama-3.2-1B-Instruct/tokenizer_config.json", "w") as file:
    json.dump({"chat_template": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
               "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}", "eos_token": "<|end|>"}, file)
PY
  "$build/renga" data csv table.csv train.h5 -data_label class >log 2>&1 || { cat log; return 1; }
  cp "$top"/tutorials/*.c "$top/examples/heat.f90" .
  python3 "$top/test/app/huggingface.py" write llama-1 && mv llama-1 Llama-3.2-1B && cp tokenizer.json Llama-3.2-1B &&
    "$build/renga" data npy Llama-3.2-1B/tokens.npy Llama-3.2-1B/labels.npy llama.h5 >log 2>&1 || { cat log; return 1; }
  python3 "$top/test/app/huggingface.py" write whisper-1 && mv whisper-1 whisper-small && mv whisper-small/features.npy . || return 1
  [ "$name" != huggingface ] || cp llama.h5 chat.h5
  mkdir quickstart-run && "$bin/bible" >text.txt &&
    "$build/renga" data text text.txt quickstart-run/bible.h5 -sequence 128 -data_validation 0.05 >log 2>&1 || { cat log; return 1; }
}

# A Python with NumPy, if there is one, for the programs in it.
python=python3
for candidate in "${RENGA_PYTHON:-python3}" /usr/bin/python3; do "$candidate" -c 'import numpy' 2>/dev/null && python=$candidate && break; done

# Each page's commands in a folder of their own, in their order.
limit=600
for page in "$top"/doc/*.md "$top/README.md"; do
  name=$(basename "$page" .md)
  PYTHONPATH=$top/src/binding/python $python "$top/doc/book/commands.py" "$page" >"$scratch/$name.bash" || { status=1; continue; }
  grep -q '^echo .==' "$scratch/$name.bash" || continue
  mkdir "$scratch/$name" && cd "$scratch/$name" || exit 99
  given || { echo "$name: the files that it takes as given cannot be made"; exit 1; }
  sed -i "s|/usr/share/datasets/fashion-mnist|$scratch/$name|g" "$scratch/$name.bash"
  began=$(date +%s)
  HOME=$scratch PATH=$bin:$PATH RENGA_PROGRAM=$build/renga SLURM_NTASKS=4 SLURM_CPUS_PER_TASK=1 \
    PBS_O_WORKDIR=$scratch/$name PYTHONPATH=$top/src/binding/python RENGA_LIBRARY=$build/.libs/librenga.so \
    timeout -k 5 $limit bash "$scratch/$name.bash" >"$scratch/out" 2>&1 </dev/null
  code=$?
  echo "$name: $(grep -c '^echo .==' "$scratch/$name.bash") blocks of commands, $(($(date +%s) - began)) s"
  grep '^-- ' "$scratch/out"
  [ $code -eq 0 ] || { echo "$name: exit code $code"; tail -n 25 "$scratch/out"; status=1; }
  cd "$scratch" || exit 99
done
exit $status
