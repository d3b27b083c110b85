#!/bin/sh
# What tests are judged by: each judge of common.sh finds what it is for, and judges by nothing that is empty, several lines, or
# a word.
. "${0%/*}/common.sh"
cat >program <<'P'
#!/bin/sh
echo "error: -steps abc: not a whole number"
echo "parameter digest 0x12"
case $1 in 0) exit 0 ;; hangs) exit 124 ;; *) exit 5 ;; esac
P
cat >launcher <<'P'
#!/bin/sh
shift 2
exec "$@"
P
chmod +x program launcher
renga=$PWD/program mpiexec=$PWD/launcher

# right COMMAND...; wrong TEXT COMMAND...: the judge fails, and says TEXT.
verdict() { (
  failures=0
  "$@"
  exit $failures
) >verdict 2>&1; }
right() { verdict "$@" || { cat verdict >out; fail "a judge fails: $*"; }; }
wrong() {
  why=$1
  shift
  ! verdict "$@" && grep -q -F -e "$why" verdict || { cat verdict >out; fail "a judge is content, or does not say \"$why\": $*"; }
}

right refuses 1 "-steps abc: not a whole number" train
wrong "exit code 0" refuses 1 "-steps abc: not a whole number" 0
wrong "exit code 124" refuses 1 "-steps abc: not a whole number" hangs
wrong "does not say" refuses 1 "-steps abc: not a real number" train
for word in -steps "-steps " "-steps abc" ""; do
  wrong "is not enough of a sentence" refuses 1 "$word" train
done
right accepts 1 0
wrong "exit code 5" accepts 1 train

accepts 1 0
nothing=$(grep nothing out)
several=$(cat out)
right says "-steps abc" "not a whole number"
wrong "does not say" says "-steps abc" "nothing"
wrong "says" lacks "nothing" "-steps abc"
right lacks "nothing" "nobody"
for judge in says lacks; do
  wrong "is empty, after: renga 0" $judge "$nothing"
  wrong "several lines" $judge "$several"
done
digest=$(digest)
right says "$digest"
right equal "$digest" "parameter digest 0x12" "they differ"
wrong "they differ" equal "$digest" "parameter digest 0x13" "they differ"
wrong "they differ" equal "$nothing" "$nothing" "they differ"
right differ "$digest" other "they are equal"
wrong "they are equal" differ "$digest" "$digest" "they are equal"
wrong "they are equal" differ "$digest" "$nothing" "they are equal"
wrong "they are equal" differ "$nothing" "$digest" "they are equal"
: >empty
right equal_files out out "files differ"
wrong "files differ" equal_files out program "files differ"
wrong "files differ" equal_files empty empty "files differ"
right wait_for true
(limit=0 && wrong "waited in vain for: false" wait_for false && exit $failures) || fail "who waits in vain is content"
for code in 0 124 137; do is_error $code && fail "exit code $code is an error"; done
is_error 5 || fail "exit code 5 is none"
own sh -c 'pwd; : >fixed-name; exit 3' >place
[ $? -eq 3 ] || fail "a command in its own folder has another exit code"
[ -n "$(cat place)" ] && [ ! -e "$(cat place)" ] && [ ! -e fixed-name ] || fail "a folder of its own is left, or is none"
finish
