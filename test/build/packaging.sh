#!/bin/sh
# The texts of packaging/: their version is that of the library, they name all that configure asks for, and what can be read by a tool
# that is here is read by it. Names of Debian's packages are compared with those that are known here.
top=$(cd "$top_srcdir" && pwd)/packaging
source=${top%/packaging}
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
status=0
wrong() {
  echo "$*"
  status=1
}
version=$(sed -n 's/^#define RENGA_VERSION "\(.*\)"/\1/p' "$source/include/rengasys.h")

# The version.
for text in "easybuild/Renga-$version-foss-2022b.eb:version = '$version'" "renga.modulefile:# Renga $version," "renga.def:Version $version" \
  "debian/changelog:renga ($version-1)" "README.md:Renga-$version-foss"; do
  grep -q -F -e "${text#*:}" "$top/${text%%:*}" || wrong "packaging/${text%%:*} does not say ${text#*:}"
done

# All that quickstart installs is in the texts of Debian; all libraries in those of other systems, by their names there.
needs=$(sed -n '/^packages=/,/"$/p' "$source/quickstart" | sed 's/packages=//' | tr -d '"' | tr '\n' ' ')
[ "$(echo "$needs" | wc -w)" -gt 15 ] || wrong "quickstart names few packages"
for file in Dockerfile renga.def debian/control; do
  for package in $needs; do
    case $file:$package in debian/control:gcc | debian/control:make | debian/control:auto* | debian/control:libtool) continue ;; esac
    grep -q -w -e "$package" "$top/$file" || wrong "packaging/$file does not name $package"
  done
done
for package in mpi hdf5 zlib-api hwloc openblas onednn protobuf-c onnx xxhash json-c libpng jpeg pkgconfig; do
  grep -q "depends_on(\"${package}[\"@]" "$top/spack/package.py" || wrong "packaging/spack/package.py does not name $package"
done
for package in HDF5 zlib hwloc oneDNN protobuf-c ONNX xxHash json-c libpng libjpeg-turbo pkgconf; do
  grep -q "('$package'," "$top/easybuild/Renga-$version-foss-2022b.eb" || wrong "packaging/easybuild does not name $package"
done
for option in with-onnx-proto without-cuda without-fortran without-png without-jpeg; do
  grep -q -e "AC_ARG_WITH(\[${option#*-}\]" -e "RENGA_MAY_HAVE(\[[A-Z]*\], \[${option#*-}\]" "$source/configure.ac" || wrong "configure has no --$option"
done

# As tools read them.
if command -v python3 >/dev/null; then
  for file in spack/package.py easybuild/*.eb; do
    (cd "$top" && python3 -c 'import sys; [compile(open(name).read(), name, "exec") for name in sys.argv[1:]]' $file) ||
      wrong "packaging/$file is no Python"
  done
else
  echo "no python3: Spack's and EasyBuild's texts are not read"
fi
if command -v tclsh >/dev/null; then
  cat >"$scratch/module.tcl" <<'TCL'
foreach command {module-whatis conflict prereq} { proc $command {args} {} }
foreach command {prepend-path setenv} { proc $command {name value} { puts "$name=$value" } }
source [lindex $argv 0]
ModulesHelp
TCL
  tclsh "$scratch/module.tcl" "$top/renga.modulefile" >"$scratch/out" 2>"$scratch/help" || wrong "packaging/renga.modulefile: $(cat "$scratch/help")"
  grep -qx "PATH=/opt/renga/$version/bin" "$scratch/out" || wrong "the module leaves PATH: $(cat "$scratch/out")"
else
  echo "no tclsh: the module is not read"
fi
if command -v dpkg-parsechangelog >/dev/null; then
  [ "$(dpkg-parsechangelog -l "$top/debian/changelog" -S Version)" = "$version-1" ] || wrong "debian/changelog has another version"
  dpkg-checkbuilddeps "$top/debian/control" 2>&1 | grep -v "Unmet build dependencies" >"$scratch/out" && wrong "debian/control: $(cat "$scratch/out")"
fi
if command -v apt-cache >/dev/null && apt-cache pkgnames >"$scratch/known" 2>/dev/null && grep -q -x libhwloc-dev "$scratch/known"; then
  grep -o -w -e 'lib[a-z0-9.+-]*[0-9a-z]' -e '[a-z0-9]*-dev' "$top/Dockerfile" | grep -v -x -e lib -e libtool | sort -u >"$scratch/named"
  grep -v -x -F -f "$scratch/known" "$scratch/named" >"$scratch/out" && wrong "there are no packages $(tr '\n' ' ' <"$scratch/out")"
fi
sed -n '/^%post/,/^$/p' "$top/renga.def" | grep -v '^%' | sh -n || wrong "packaging/renga.def: a step is no shell script"
make -n -f "$top/debian/rules" override_dh_auto_configure >/dev/null || wrong "debian/rules is no makefile"
exit $status
