#!/bin/sh
# TEST ranks: 4
# make distcheck without the tests, which `make check` builds and runs, and without a network: a build of the distribution apart from its
# sources, which cannot be written; installed, programs built against it (installcheck.sh), uninstalled with nothing
# left; then again with DESTDIR. And every file that is kept in the repository is in the distribution.
. "${0%/*}/common.sh"
# Without a network, where it can be taken away.
offline() {
  if unshare -n true 2>/dev/null; then
    unshare -n sh -c 'command -v ip >/dev/null && ip link set lo up; exec "$@"' sh "$@"
  else
    "$@"
  fi
}
configure_in distribution
offline make -s -j"$jobs" distcheck tests= check_PROGRAMS= check_SCRIPTS= DISTCHECK_CONFIGURE_FLAGS="CC='${CC:-mpicc}' CFLAGS=-O0" \
  >distcheck.out 2>&1 || { tail -n 100 distcheck.out; exit 1; }
command -v cmake >/dev/null && with_cmake=CMake || { echo "no cmake here"; with_cmake=; }
for what in "shared library" archive $with_cmake; do grep "^installcheck: $what" distcheck.out; done
git -C "$source" rev-parse --git-dir >/dev/null 2>&1 || { echo "no repository here"; exit 0; }
git -C "$source" ls-files | grep -v '^\.' | sort >kept
tar tJf renga-*.tar.xz | sed 's|^[^/]*/||' | sort >shipped
comm -23 kept shipped >missing
[ ! -s missing ] || { echo "not in the distribution:"; cat missing; exit 1; }
