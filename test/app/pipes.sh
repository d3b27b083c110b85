#!/bin/sh
# A pipe by name in place of a file is an error, never a wait for its other end; so are folders and
# devices. What a shell has opened is taken as it is. No program may follow a link that lies in wait.
. "${0%/*}/common.sh"
mkfifo pipe pipe.h5 pipe.onnx pipe.opts pipe.csv pipe.npy pipe.txt pipe.json pipe.idx
mkdir -p pictures/a pictures/b c l w
mkfifo pictures/a/one.png pictures/a/two.jpg pictures/b/three.jpg c/step_000000001.h5 l/.renga_lock
pairs="train -graph $mlp -data synthetic -batch_size 8 -steps 1 -progress none"

# regular ARGUMENT...: one process says at once that it is no regular file.
regular() {
  latest="renga $*"
  timeout -k 5 $limit "$renga" "$@" </dev/null >out 2>&1
  code=$?
  [ $code -ne 0 ] || fail "exit code 0: renga $*"
  [ $code -ne 124 ] && [ $code -ne 137 ] || fail "waits for a pipe: renga $*"
  grep -q "is not a regular file\|no regular file\|not a file that can be replaced" out ||
    fail "does not say what it is: renga $*"
}

regular info -graph $mlp -options_file pipe
regular info -graph pipe.onnx
regular info -checkpoint pipe.h5
regular $pairs -data pipe.h5
regular $pairs -initial pipe.h5
regular $pairs -monitor csv:pipe.csv
regular $pairs -monitor csv:pipe.csv -resume -checkpoint_dir d
regular $pairs -monitor http:0 -monitor_token_file pipe
regular $pairs -log_trace pipe
regular $pairs -plan_load pipe
regular $pairs -plan_save pipe
regular $pairs -graph_view dot:pipe
regular $pairs -profile_type measured -profile_file pipe.h5
regular $pairs -checkpoint_dir c -resume
regular $pairs -checkpoint_dir l
regular plan -graph $mlp -machine_file ./pipe.opts
regular plan -graph $mlp -machine_file v100 -profile_type file -profile_file pipe
regular data text pipe.txt d.h5
regular data csv pipe.csv d.h5 -data_label a
regular data ratings pipe.csv d.h5
regular data images pictures d.h5
rm pictures/a/one.png
regular data images pictures d.h5

# Devices and folders likewise.
regular info -graph $mlp -options_file /dev/zero
timeout -k 5 $limit "$renga" info -graph $mlp -options_file w </dev/null >out 2>&1 && fail "a folder is read"
says "Is a directory"

# The streams that a shell has opened.
echo "-batch_size 8" | timeout -k 5 $limit "$renga" info -graph $mlp -options_file /dev/stdin -options_view >out 2>&1 ||
  fail "no options of standard input"
says "-batch_size 8"
echo "-batch_size 8" >eight.opts
timeout -k 5 $limit "$renga" info -graph $mlp -options_file /dev/fd/3 -options_view 3<eight.opts >out 2>&1 </dev/null ||
  fail "no options of descriptor 3"
says "-batch_size 8"
accepts 1 info -graph $mlp -options_file /dev/null
timeout -k 5 $limit "$renga" info -graph $mlp -graph_view dot:/dev/stdout </dev/null 2>&1 | cat >out
says "digraph"
accepts 1 info -graph $mlp -graph_view dot:/dev/null

# A link under the name of the file by which a folder is tried; a folder under that of the lock.
echo precious >precious
ln -s "$PWD/precious" w/.renga_probe
accepts 2 $pairs -checkpoint_dir w
[ "$(cat precious)" = precious ] || fail "a link was written through"
[ "$(ls -A w)" = ".renga_probe
step_000000001.h5" ] || fail "left behind: $(ls -A w)"
mkdir -p f/.renga_lock
refuses 2 ".renga_lock is not a regular file" $pairs -checkpoint_dir f
[ -d f/.renga_lock ] || fail "the folder is gone"

# A long file of options is read in a time that grows with its length.
yes -- "-batch_size 8" | head -n 200000 >long.opts
accepts 1 info -graph $mlp -options_file long.opts
yes -- "-bath_size 8" | head -n 200000 >long.opts
timeout -k 5 $limit "$renga" info -graph $mlp -options_file long.opts </dev/null >out 2>&1 && fail "wrong options are taken"
says "and more"

# Too little address space for the buffers of matrix products.
if [ -z "${SANITIZERS:-}" ]; then
  (ulimit -v 200000 && timeout -k 5 $limit "$renga" $pairs -timeout 20 </dev/null >out 2>&1)
  code=$?
  [ $code -ne 0 ] && [ $code -ne 124 ] && [ $code -ne 137 ] || fail "exit code $code with little address space"
fi
finish
