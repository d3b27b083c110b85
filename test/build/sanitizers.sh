#!/bin/sh
# All tests under the address and undefined-behaviour sanitizers, some of them with fewer cases.
# The emulated CUDA has closed memory and stacks of its own, which the sanitizers take for faults.
. "${0%/*}/common.sh"
configure_in sanitizers --enable-sanitizers --disable-shared --without-cuda CFLAGS='-O1 -g1'
make -s -j"$jobs"
export RENGA_TEST_OTHER_ROUNDING=1 RENGA_TEST_SLOW=1
export HWLOC_PLUGINS_PATH="$scratch/none" # what hwloc's plugins open leaks
LSAN_OPTIONS="suppressions=$here/leaks.supp print_suppressions=0" \
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 make -s -j"$((jobs + 1))" check ||
  {
    cat test-suite.log
    # Once more at the end, for those who see no more of it.
    for result in $(find . -name '*.trs' -exec grep -lE '^:global-test-result: (FAIL|ERROR)' {} +); do
      echo "== ${result%.trs}"
      grep -E 'ERROR: |runtime error|FAILED|SUMMARY' "${result%.trs}.log" | head -n 8
      tail -n 12 "${result%.trs}.log"
    done
    exit 1
  }
echo "the slowest, in seconds:"
find . -name '*.log' -exec sed -n 's|^took \([0-9]*\) s$|\1 {}|p' {} \; | sort -rn | head -n 20
