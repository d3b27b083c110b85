#!/bin/sh
# A host program whose locale writes 0,5 for one half, and calls another letter i: what Renga reads, computes, shows and saves is
# the same as in the locale C.
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
program=$(cd "${top_builddir:-.}" && pwd)/test/sys/locale
RENGA_OPTIONS= ; export RENGA_OPTIONS
status=0

cat >"$folder/source" <<'END'
comment_char %
escape_char /
LC_CTYPE
copy "POSIX"
END LC_CTYPE
LC_COLLATE
copy "POSIX"
END LC_COLLATE
LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
END
mkdir "$folder/locales"
localedef -c -i "$folder/source" -f ANSI_X3.4-1968 "$folder/locales/comma" >/dev/null 2>&1
[ -f "$folder/locales/comma/LC_NUMERIC" ] || { echo "localedef makes no locale here: Debian has what it needs in the package locales"; exit 77; }
LOCPATH=$folder/locales ; export LOCPATH

for locale in C comma; do
  here=$folder/$locale
  mkdir "$here"
  cat >"$here/machine.opts" <<'END'
-name laptop
-nodes 1
-devices 4
-memory 3GiB
-matrix_rate 192e9
-matrix_rate_bfloat16 192e9
-matrix_rate_float16 192e9
-vector_rate 192e9
-memory_bandwidth 17e9
-matrix_efficiency 0.75
-vector_efficiency 0.2
-bandwidth_efficiency 0.7
-launch 1e-6
-node_latency 1e-6
-node_bandwidth 6e9
-cluster_latency 1e-4
-cluster_bandwidth 100e6
END
  printf 'a,b,y\n0.5,1.25,3.5\n-0.25,2.5e-1,0.125\n1.5,0.75,0.25\n0.1,0.2,0.3\n' >"$here/table.csv"
  (cd "$here" && timeout 60 "$program" $locale . -optimizer_type sgd -optimizer_learning_rate 0.25 -optimizer_momentum 0.5 \
    -optimizer_clip_norm 0.75 -timeout 12.5 -partition_type auto) >"$here/out" 2>&1 </dev/null
  code=$?
  [ $code -ne 77 ] || { echo "the C library takes no such locale"; exit 77; }
  [ $code -eq 0 ] || { echo "locale $locale: exit code $code"; cat "$here/out"; status=1; }
done
for file in out plan again shown.ascii shown.json shown.draw; do
  cmp "$folder/C/$file" "$folder/comma/$file" || { diff "$folder/C/$file" "$folder/comma/$file" | head -5; status=1; }
done
grep -q 'loss -\{0,1\}[0-9]*\.[0-9]' "$folder/C/out" || { echo "no loss:"; cat "$folder/C/out"; status=1; }
exit $status
