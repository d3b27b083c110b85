#!/bin/sh
# renga options writes a file of all options that is read as it is and line by line; what bash completes.
top=$(cd "$top_srcdir" && pwd)
renga=$(cd "$top_builddir" && pwd)/renga
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 99
export OMP_NUM_THREADS=1
status=0
"$renga" options all.opts >out 2>&1 && grep -q '^all.opts: all options' out || { cat out; exit 1; }
"$renga" info -graph mlp:sizes=4-3 -options_file all.opts >out 2>&1 || { echo "the file is not read:"; cat out; status=1; }
# Every option of every command stands in it, once.
for command in train info plan profile data generate eval predict export watch; do
  "$renga" $command -help | sed -n 's/^  -\([a-z0-9_]*\) .*/\1/p'
done | sort -u | grep -vx -e help -e version >known
sed -n 's/^#-\([a-z0-9_]*\) .*/\1/p' all.opts | sort >written
cmp known written || { diff known written; status=1; }
[ "$(wc -l <known)" -gt 100 ] || { echo "few options"; status=1; }
# A line without its # counts.
sed -e 's/^#-machine_file.*/-machine_file v100/' -e 's/^#-batch_size .*/-batch_size 96/' all.opts >mine.opts
"$renga" plan -graph mlp:sizes=4-3 -options_file mine.opts >out 2>&1 && grep -q 'steps of 96 samples' out && grep -q v100 out ||
  { cat out; status=1; }
# All defaults at once, but for those that are empty, are what there is without them.
sed -n 's/^#\(-[a-z0-9_]* [^ ].*\)/\1/p' all.opts | grep -e '^-graph_' -e '^-timeout' -e '^-log_view' >defaults.opts
"$renga" info -graph mlp:sizes=4-3 -options_file defaults.opts >out 2>&1 || { cat out; status=1; }
# The prefix of each option is that of a class, which sets and gets it.
python3 "$top/test/app/optionclasses.py" "$top/test/app/options.tsv" all.opts "$top"/include/*.h || status=1
# Names of the version before, with the defaults of their options: in a file, in the environment, on the command line.
sed -n 's/^ *{"\([a-z0-9_]*\)", "\([a-z0-9_]*\)", true}.*/\1 \2/p' "$top/src/sys/optionname.c" >names
[ "$(wc -l <names)" -gt 10 ] || { echo "few old names"; status=1; }
while read -r old new; do
  sed -n "s/^#-$new \([^ ]*\)$/-$old \1/p" all.opts
done <names | sed 's/ $/ x/' >old.opts
"$renga" -version -options_view -options_file old.opts >out 2>&1
RENGA_OPTIONS=$(cat old.opts) "$renga" -version -options_view >more 2>&1
"$renga" -version -options_view $(cat old.opts) >most 2>&1
for file in out more most; do
  while read -r old new; do
    grep -q "warning: .*-$old is -$new now" $file && grep -q "^-$new " $file || { echo "-$old is not read as -$new:"; cat $file; status=1; break; }
  done <names
  [ "$(grep -c warning $file)" -eq 1 ] || { echo "not one line of old names"; status=1; }
done
# They stand in the table, in CHANGELOG.md and in one test, and in no other text.
old=$(cut -d ' ' -f 1 names | grep -vx data_parallel | paste -sd '|')
(cd "$top" && grep -rnE "[-\"'\`=]($old)([^a-z0-9_]|\$)" --include='*.[ch]' --include='*.md' --include='*.py' --include='*.sh' --include='*.tsv' \
  --include='*.f90' --include='*.opts' --include='*.txt' src include doc test examples tutorials share quickstart README.md) |
  grep -v -e '^src/sys/optionname.c' -e '^test/sys/options.c' >left && { echo "names of the version before:"; head left; status=1; }
"$renga" options all.opts >out 2>&1 && { echo "a file is replaced"; status=1; }
grep -q 'it is not replaced' out || { cat out; status=1; }
"$renga" options >out 2>&1; grep -q 'some word is missing' out || { cat out; status=1; }

command -v bash >/dev/null || { echo "no bash: completion is not tried"; exit $status; }
complete() { # WORD ...: the completions of the last one
  PATH=$(dirname "$renga"):$PATH bash -c '. "$1"; shift; COMP_WORDS=(renga "$@"); COMP_CWORD=$#; _renga; echo ${COMPREPLY[*]}' \
    bash "$top/src/binding/shell/renga" "$@"
}
expect() {
  text=$1
  shift
  found=$(complete "$@")
  [ "$found" = "$text" ] || { echo "renga $* completes to \"$found\", not \"$text\""; status=1; }
}
expect "predict" pre
expect "train info plan profile data generate eval predict export options watch run" ""
expect "-launcher" run -la
expect "pairs" data pa
expect "images idx" data i
expect "-data_image_size" data images -data_im
expect "-layout_pipeline" train -layout_pi
expect "auto 0 none 1 optimizer 2 gradients 3 parameters" train -layout_zero ""
expect "sgd adam adamw" train -optimizer_type ""
expect "adam adamw" train -optimizer_type ad
expect "true false" train -log_view ""
expect "all.opts" plan -options_file all
exit $status
