#!/bin/sh
# What a search does, in numbers that are the same on every machine: lists that are made, steps that
# are simulated, plans of which the memory is asked for, stages that are compiled for it. A search
# that does a quarter more than what stands here has lost something: what is it? One that does much
# less has won: the numbers here follow it. Searches on fewer ranks beside that on all of them count, too.
. "${0%/*}/common.sh"

# most NAME NUMBER: the last plan calls the event no more than that and a quarter, and no less than half.
most() {
  calls=$(awk -v name="$1" 'index($0, name) == 1 { print $3 }' out)
  [ "${calls:-0}" -le $(($2 + $2 / 4)) ] || fail "$1: $calls times, where $2 stand here"
  [ "${calls:-0}" -ge $(($2 / 2)) ] || fail "$1: only ${calls:-0} times: let $2 follow it"
}

# does LISTS STEPS PLANS STAGES ARGUMENT...
does() {
  lists=$1 steps=$2 plans=$3 stages=$4
  shift 4
  accepts 1 plan "$@" -log_view
  most "Plan lists" "$lists"
  most "Plan simulate" "$steps"
  most "Plan memory" "$plans"
  most "Stage forecast" "$stages"
}

does 645 11197 768 409 -graph gpt:layers=6,hidden=512,heads=8,sequence=256,vocabulary=1000 \
  -graph_lanes 1 -machine_file v100 -machine_nodes 1 -batch_size 32
does 481 17247 1498 1130 -graph bert:layers=24,hidden=1024,heads=16 -graph_lanes 1 -machine_file v100 -machine_nodes 1 \
  -batch_size 64 -layout_pipeline 4

finish
