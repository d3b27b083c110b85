# What the scripts of this folder share: a scratch folder, removed at the end, and a configure in it.
set -eu
here=$(cd "${0%/*}" && pwd)
source=$(cd "$here/../.." && pwd)
top_builddir=${top_builddir:-$source/build}
jobs=$(nproc)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# configure_in NAME ARGUMENT...: configure in a folder of the scratch folder and go there.
configure_in() {
  mkdir "$scratch/$1"
  cd "$scratch/$1"
  shift
  variables=
  while case ${1:-} in *_CC=*) true ;; *) false ;; esac; do
    variables="$variables $1"
    shift
  done
  [ -z "$variables" ] || export $variables
  "$source/configure" -q "$@" >configure.out 2>&1 || { cat configure.out; exit 1; }
}
