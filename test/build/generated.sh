#!/bin/sh
# TEST ranks: 1
# Sources that are generated are prerequisites of what includes them: a single target can be built in a folder where nothing is.
. "${0%/*}/common.sh"
cd "$scratch"
cp "$top_builddir/Makefile" .
touch config.status config.h stamp-h1 libtool # newer than all that they are made of
makes() { # TARGET TEXT: its recipe is one of those that the target needs
  make -n V=1 srcdir="$source" top_srcdir="$source" VPATH="$source" "$1" >out 2>&1 && grep -q -e "$2" out || { cat out; echo "$1 is built without $2"; exit 1; }
}
makes src/app/renga-http.o '>src/app/watchpage\.h'
makes src/graph/onnx/mergednodes.lo '--c_out=src/graph/onnx/'
makes src/graph/onnx/words.lo '--c_out=src/graph/onnx/'
