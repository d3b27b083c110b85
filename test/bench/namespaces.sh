#!/bin/sh
# What it costs that owners exchange samples: two ranks in two network namespaces, joined at RATE, train with pictures of
# 150 KB; rounds of runs without exchange (local) and with partial:Q take turns. Prints the seconds of a step (medians),
# and for each Q the median over the rounds of the ratio to the run without exchange; beside it what the exchange itself took of
# the last round's steps (log events DataSend and DataReceive of the rank with the most), which a loaded machine disturbs less.
#   sudo env OMP_NUM_THREADS=1 test/bench/namespaces.sh build/renga [ROUNDS [STEPS]]
# Environment: RATE (1gbit), NETWORK, BATCH (16), SHARES ("0.3 1").
set -eu
[ "$(id -u)" -eq 0 ] || { echo "network namespaces need root"; exit 1; }
renga=$(realpath "$1") rounds=${2:-5} steps=${3:-60}
rate=${RATE:-1gbit} batch=${BATCH:-16} shares=${SHARES:-0.3 1}
network=${NETWORK:-resnet:depth=18,classes=10,image=224}
here=$(cd "${0%/*}" && pwd)
work=$(mktemp -d)
bridge=rengabr
down() {
  for i in 1 2; do
    ip link del rengav$i 2>/dev/null || :
    ip netns del renga$i 2>/dev/null || :
  done
  ip link del $bridge 2>/dev/null || :
  rm -rf "$work"
}
trap down EXIT
ip link add $bridge type bridge
ip addr add 10.78.0.254/24 dev $bridge
ip link set $bridge up
for i in 1 2; do
  ip netns add renga$i
  ip link add rengav$i type veth peer name eth0 netns renga$i
  ip link set rengav$i master $bridge up
  ip -n renga$i addr add 10.78.0.$i/24 dev eth0
  ip -n renga$i link set eth0 up
  ip -n renga$i link set lo up
  ip netns exec renga$i tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 50ms
done
cat >"$work/launch" <<'LAUNCH'
#!/bin/sh
# As ssh: launch [-option ...] HOST COMMAND: on "node" 1 or 2, each with a name, shared memory and network of its own.
while [ "${1#-}" != "$1" ]; do shift; done
number=${1##*.}
shift
exec ip netns exec "renga$number" unshare --uts --ipc --mount sh -c \
  "hostname node$number; mount -t tmpfs -o size=1g tmpfs /dev/shm; exec $*"
LAUNCH
chmod +x "$work/launch"

cd "$work"
python3 "$here/images.py" . $((batch * steps)) 3x224x224 10
"$renga" data npy x.npy labels.npy set.h5 >data.log
rm x.npy
train() {
  rm -f "$1.csv"
  UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 timeout 600 mpiexec -launcher ssh -launcher-exec ./launch -iface $bridge \
    -hosts 10.78.0.1:1,10.78.0.2:1 -n 2 "$renga" train -graph "$network" -data set.h5 -batch_size "$batch" \
    -microbatch_size $((batch / 2)) -layout_pipeline 1 -layout_data 2 -steps "$steps" -progress none \
    -optimizer_learning_rate 1e-4 -data_placement local -data_owners 8 -data_shuffle "$1" -monitor "csv:$1.csv" -log_view >"$1.log" 2>&1 ||
    { cat "$1.log"; exit 1; }
  awk -F, 'NR > 6 { print $6 }' "$1.csv" | sort -g | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}
median() { sort -g | awk '{ t[NR] = $1 } END { print (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2 }'; }

for round in $(seq "$rounds"); do
  [ $((round % 2)) -eq 1 ] && none=$(train local)
  for q in $shares; do with=$(train "partial:$q"); eval "with_$(echo "$q" | tr -d .)=$with"; done
  [ $((round % 2)) -eq 0 ] && none=$(train local)
  echo "$none" >>none
  for q in $shares; do
    eval "with=\$with_$(echo "$q" | tr -d .)"
    echo "$with $none" >>"with-$q"
    echo "round $round: $none s a step, with partial:$q $with s, load $(cut -d' ' -f1 /proc/loadavg)"
  done
done
for q in $shares; do
  awk -F, 'NR > 1 { sum += $6 } END { print sum }' "partial:$q.csv" >sum
  own=$(awk -v steps="$(cat sum)" '/^Data(Send|Receive) / { sum += $3 } END { printf "%.2f", 100 * sum / steps }' "partial:$q.log")
  echo "partial:$q: the exchange took $own % of the steps; ratio $(awk '{ print $1 / $2 }' "with-$q" | median) (median of $rounds rounds); $(median <none) s without; \
$(grep -h '^samples:' "partial:$q.log")"
done
