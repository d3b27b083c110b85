#!/bin/sh
# A token of -monitor http is nowhere but where the user put it: not in views, checkpoints, outputs.
. "${0%/*}/common.sh"
word=secretWORD99
run="train -graph $mlp -data synthetic -batch_size 8 -steps 1 -progress none -monitor http:0 -options_view"

# hidden NAME: the last run shows the word nowhere, and its checkpoint neither.
hidden() {
  lacks $word
  says "with the token that was given"
  ! grep -q $word $1/*.h5 || fail "the checkpoint has the token"
  "$renga" info -checkpoint $1 </dev/null >view 2>&1
  ! grep -q $word view || fail "the view of the checkpoint has the token"
}

echo $word >word
chmod 600 word
accepts 1 $run -monitor_token_file word -checkpoint_dir a
hidden a
lacks "other users can"
chmod 644 word
accepts 1 $run -monitor_token_file word
says "other users can read it"
RENGA_MONITOR_TOKEN=$word accepts 1 $run -checkpoint_dir b
hidden b
accepts 2 $run -monitor_token $word -checkpoint_dir c
hidden c
says "-monitor_token is on the command line, which other users of this machine can list"
says "# -monitor_token is given, and not shown"
says "-monitor http:0"
echo "-monitor_token $word" >token.opts
accepts 1 $run -options_file token.opts -checkpoint_dir d
hidden d
lacks "command line"
refuses 1 "both say the token" $run -options_file token.opts -monitor_token_file word
lacks $word
refuses 1 "at least 8 letters" $run -monitor_token_file /dev/null
refuses 1 "-monitor_token_file nowhere: No such file" $run -monitor_token_file nowhere
RENGA_OPTIONS="-monitor_token $word" refuses 1 "-monitor_token: only -monitor http has a page" train -graph $mlp \
  -data synthetic -steps 1
lacks $word
finish
