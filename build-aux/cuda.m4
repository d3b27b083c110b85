# RENGA_FIND_CUDA: the CUDA toolkit that --with-cuda names, or that is where it usually is.
#   CUDA_DIR       its folder, with include/; empty: there is none
#   NVCC           its compiler; have_module: yes where --with-cuda asks for the module, too
#   CUDA_EMULATED  yes: tests can build the emulated runtime; else CUDA_MISSING says why not
AC_DEFUN([RENGA_FIND_CUDA], [
AC_CHECK_PROGS([CUDA_CXX], [g++ clang++])
have_cuda=no
CUDA_DIR=
CUDA_EMULATED=
CUDA_MISSING="no CUDA headers: give configure --with-cuda=DIR"
AS_CASE(["x$with_cuda"],
  [xno], [renga_folders=; CUDA_MISSING="configured without CUDA"],
  [x|xyes], [renga_folders="$CUDA_HOME $CUDA_PATH /usr/local/cuda /opt/cuda /usr/lib/cuda /usr"],
  [renga_folders=$with_cuda])
AC_MSG_CHECKING([for CUDA's headers])
for renga_folder in $renga_folders; do
  AS_IF([test "x$CUDA_DIR" = x && test -f "$renga_folder/include/cuda_runtime.h"], [CUDA_DIR=$renga_folder])
done
AC_MSG_RESULT([${CUDA_DIR:-no}])
AS_CASE(["x$with_cuda"], [x|xno], [],
  [AS_IF([test "x$CUDA_DIR" = x], [RENGA_NEED([CUDA's headers (cuda_runtime.h in DIR/include)], [NVIDIA's toolkit])])])
AS_IF([test "x$CUDA_DIR" != x], [
have_cuda=yes
AC_MSG_CHECKING([whether $CUDA_CXX builds an emulated CUDA runtime])
cat >conftest.cpp <<_ACEOF
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cublasLt.h>
#include <nccl.h>
#if !defined __x86_64__ || !defined __linux__ || CUDART_VERSION < 13000
#error x86-64, Linux, CUDA 13
#endif
_ACEOF
AS_IF([test "x$CUDA_CXX" != x && $CUDA_CXX -std=c++17 -I"$CUDA_DIR/include" -c -o conftest.$ac_objext conftest.cpp >&AS_MESSAGE_LOG_FD 2>&1],
  [CUDA_EMULATED=yes; CUDA_MISSING=],
  [CUDA_MISSING="the emulated CUDA runtime needs x86-64, g++ and the headers of CUDA 13, cuBLAS and NCCL (config.log)"])
rm -f conftest*
AC_MSG_RESULT([${CUDA_EMULATED:-no}])])
AC_PATH_PROG([NVCC], [nvcc], [], [$CUDA_DIR/bin$PATH_SEPARATOR$PATH])
have_module="make cuda-module builds it"
AS_IF([test "x$NVCC" = x], [have_module="not here: no nvcc"],
  [test "x$with_cuda" != x && test "x$with_cuda" != xno], [have_module=yes])
AC_SUBST([CUDA_DIR])
AC_SUBST([CUDA_EMULATED])
AC_SUBST([CUDA_MISSING])
])
