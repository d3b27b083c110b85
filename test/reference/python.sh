# For scripts that compare with modules of Python: the first one that imports $modules is $found, and $here is this folder.
# Sourced; skipped where there is none.
cd "$(dirname "$0")" && here=$(pwd) && cd - >/dev/null || exit 1
top_builddir=${top_builddir:-$(pwd)}
. "$here/../app/common.sh"
for candidate in "${PYTHON:-python3}" /usr/bin/python3; do
  "$candidate" -c "import $modules" 2>/dev/null && found=$candidate && break
done
[ -n "${found:-}" ] || { echo "no python3 with $modules"; exit 77; }
