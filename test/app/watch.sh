#!/bin/sh
# A run that is watched: event files of TensorBoard, the page of a running job, renga watch.
. "${0%/*}/common.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
train="train -graph $mlp -data synthetic -data_validation 0.25 -batch_size 8 -microbatch_size 2 -progress none"

# reads TEXT FOLDER ROWS [FIRST…]: the events are the rows, and TEXT is what there is of them.
reads() {
  text=$1
  shift
  python3 "$top_srcdir/test/app/events.py" "$@" >out 2>&1 || fail "the events of $1 are not the rows of $2"
  says "$text"
}

# Every scalar of every step, checksums included; a run that goes on adds a session.
accepts 2 $train -steps 6 -eval_every 2 -checkpoint_dir c -checkpoint_every 4 -monitor csv:a,b.csv,tensorboard:events
[ -f a,b.csv ] || fail "a comma in a name parts it"
reads "6 rows" events a,b.csv
reads "3 accuracies" events a,b.csv
accepts 1 $train -steps 9 -eval_every 2 -checkpoint_dir c -resume -monitor tensorboard:events,csv:a,b.csv
reads "9 rows" events a,b.csv 6

# The reader sees a byte that is wrong.
cp -r events torn
python3 - torn <<'PY'
import os, sys
name = os.path.join(sys.argv[1], sorted(os.listdir(sys.argv[1]))[0])
data = bytearray(open(name, "rb").read())
data[-6] ^= 1
open(name, "wb").write(data)
PY
python3 "$top_srcdir/test/app/events.py" torn a,b.csv 6 >out 2>&1 && fail "a damaged record is read"
says "does not have its checksum"

# No other run's folder, and none that cannot be written.
refuses 2 "-monitor tensorboard:events: the folder holds the events of another run" $train -monitor tensorboard:events
refuses 2 "-monitor tensorboard:no/such/folder: No such file or directory" $train -monitor tensorboard:no/such/folder
: >a-file
refuses 2 "-monitor tensorboard:a-file: Not a directory" $train -monitor tensorboard:a-file
refuses 2 "-monitor tensorboard:: write csv:FILE, tensorboard:DIR or http:PORT, or several of them" $train -monitor tensorboard:
refuses 2 "-monitor tensorboard: write csv:FILE, tensorboard:DIR or http:PORT, or several of them" $train -monitor tensorboard

# A bar on a terminal, be it only that of the errors; lines on an output that is none, and no bar where both are none.
cat >terminal.py <<'PY'
import os, pty, subprocess, sys
out, *command = sys.argv[1:]
master, slave = pty.openpty()
with open(out, "wb") as file:
    run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave if out == "/dev/null" else file, stderr=slave)
os.close(slave)
shown = b""
while True:
    try:
        got = os.read(master, 65536)
    except OSError:
        got = b""
    if not got:
        break
    shown += got
sys.stdout.write(shown.decode())
sys.exit(run.wait())
PY
shown="train -graph $mlp -data synthetic -batch_size 8 -steps 3"
for ranks in 1 2; do
  timeout -k 5 $limit python3 terminal.py lines "$mpiexec" -n $ranks "$renga" $shown >out || fail "a run on $ranks with a terminal for its errors"
  says "########] step 3/3"
  grep -q "^step 3/3  loss" lines || fail "no line beside the bar"
  timeout -k 5 $limit python3 terminal.py /dev/null "$mpiexec" -n $ranks "$renga" $shown >out || fail "a run on $ranks with a terminal"
  says "########] step 3/3"
  lacks "learning rate"
done
accepts 1 $shown
lacks "#"

# The page of a running job: its numbers are those of the rows; bad clients, foreign names and bad requests harm nothing.
begin() {
  log=$1 ranks=$2
  shift 2
  timeout -k 5 $((2 * limit)) "$mpiexec" -n "$ranks" "$renga" "$@" </dev/null >"$log" 2>&1 &
  job=$!
}
page() { python3 "$top_srcdir/test/app/page.py" "$@" >out 2>&1 || { cat "$2" >>out; fail "page.py $*"; }; }
endless="train -graph $gpt -data synthetic -data_validation 0.1 -eval_samples 8 -batch_size 8 -microbatch_size 2 -progress none
  -eval_every 10 -steps 100000000 -time_limit 0 -seed 3"
begin first.log 2 $endless -layout_pipeline 2 -monitor csv:first.csv,http:0 -checkpoint_dir p
first=$job
page all first.log first.csv
says " 2 ranks"
page port first.log
port=$(cat out)

# renga watch shows the same, by the page and by the rows.
accepts 1 watch "127.0.0.1:$port" -watch_once
says "vocabulary=256: "
says " of 100000000"
says "    1  stage 1, replica 0 "
says "validation loss "
accepts 1 watch "http://127.0.0.1:$port/" -watch_once
accepts 1 watch . -watch_once
says "./first.csv"
lacks "rank"
accepts 1 watch first.csv -steps 1 # which it has: the end is reached
grep -q "^step [0-9]*/1  loss [0-9]" out || fail "no line of a step"
timeout -k 5 $limit "$renga" watch "127.0.0.1:$port" -watch_every 0.2 </dev/null >followed 2>&1 &
follower=$!

# A browser draws it.
if command -v chromium >/dev/null; then
  timeout -k 5 $limit chromium --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/browser" --virtual-time-budget=4000 \
    --dump-dom "http://127.0.0.1:$port/" >dom 2>out || fail chromium
  for text in 'id="number-loss"' '<path d="M' 'stage 1, replica 0' 'rank 1 communication' '<title>saved ' 'src="plan.svg"' \
    'id="problem"></div>'; do
    grep -q -F -e "$text" dom || fail "the page in the browser has no $text"
  done
else
  echo "no chromium: no browser tries the page"
fi

# Another job has a page of its own, and cannot have this one's port.
begin second.log 2 $endless -train_average local:5 -train_learners 2 -monitor http:0
second=$job
page port second.log
second_port=$(cat out)
differ "$second_port" "$port" "two jobs on one port"

# Learners that train apart: each group of ranks computes the plan.
has_two_groups() {
  accepts 1 watch "127.0.0.1:$second_port" -watch_once
  grep -q "^    1  " out
}
wait_for has_two_groups
says "    0  stage 0, replica 0 "
says "    1  stage 0, replica 0 "
refuses 2 "-monitor http:$port: port $port of 127.0.0.1 is in use by another program" $endless -monitor http:$port
refuses 1 "\"eighty\" is no port: write http:PORT or http:HOST:PORT" $train -monitor http:eighty
refuses 1 "\"70000\" is no port: write http:PORT or http:HOST:PORT" $train -monitor http:70000
refuses 1 "-monitor http:0: a run has one page" $train -monitor http:0,http:0
refuses 2 "-monitor csv:a.csv stands there twice" $train -monitor csv:a.csv,tensorboard:a.csv,csv:a.csv
refuses 2 "-monitor_token: only -monitor http has a page" $train -monitor_token abcdefgh -monitor csv:a.csv
refuses 1 "-monitor_token: files of rows need none" watch first.csv -monitor_token abcdefgh
refuses 1 "-steps 5: the page of a run says how many it does" watch "127.0.0.1:$port" -steps 5
refuses 1 "-monitor_token: a token has at least 8 letters, digits, dots or dashes" $train -monitor http:0 -monitor_token "a b c d e f g"
kill -TERM $second
wait $second

# The end of the job is the end of its page.
kill -TERM $first
wait $first
page gone first.log
wait $follower || fail "renga watch of a run that ends"
cp followed out
says "the run does not answer any more"
[ "$(grep -c '^step [0-9]*/100000000  loss ' followed)" -ge 1 ] || fail "no step was seen"
refuses 1 "no run answers at 127.0.0.1:$port: Connection refused" watch "127.0.0.1:$port"
refuses 1 "there is no such folder or file, nor is it HOST:PORT" watch nowhere
refuses 1 "has no file that -monitor csv writes" watch events
refuses 1 "it is no file that -monitor csv writes" watch first.log
refuses 2 "renga watch is for one process" watch first.csv
refuses 1 "renga train does not use -watch_once" $train -watch_once

# Where other machines reach it a token is needed; a given one is needed here, too.
begin third.log 1 $endless -monitor http:0.0.0.0:0
page token third.log
says "token of 32"
kill -TERM $job
wait $job
begin fourth.log 1 $endless -monitor http:0 -monitor_token abc.DEF-123
page token fourth.log abc.DEF-123
says "token of 11"
page port fourth.log
port=$(cat out)
refuses 1 "127.0.0.1:$port wants its token" watch "127.0.0.1:$port" -watch_once
accepts 1 watch "127.0.0.1:$port" -watch_once -monitor_token abc.DEF-123
RENGA_MONITOR_TOKEN=abc.DEF-123 accepts 1 watch "127.0.0.1:$port" -watch_once
accepts 1 watch "http://127.0.0.1:$port/?token=abc.DEF-123" -watch_once
says "vocabulary=256: "
kill -TERM $job
wait $job

# A page that is none of Renga's steers no terminal.
python3 - "$renga" >out 2>&1 <<'PY' || fail "what a page says steers the terminal"
import http.server, json, subprocess, sys, threading
name = "a\u001b[2Jb\u009b2Jc\u00e9\u2026"
state = {"format": 1, "network": name, "ranks": [{"place": name, "node": name}]}

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(state).encode())

server = http.server.HTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
shown = subprocess.run([sys.argv[1], "watch", "127.0.0.1:%d" % server.server_port, "-watch_once"], timeout=150, stdout=subprocess.PIPE).stdout
print(shown)
assert shown.count(b"a?[2Jb\xc2?2Jc\xc3\xa9\xe2\x80\xa6") == 3 and b"\x1b" not in shown and b"\xc2\x9b" not in shown
PY

# Whoever looks, the bits are the same.
accepts 2 $train -steps 40 -layout_pipeline 2 -parameter_digest
digest >plain
accepts 2 $train -steps 40 -layout_pipeline 2 -parameter_digest -monitor http:0
digest >watched
equal_files plain watched "another digest with a page"
finish
