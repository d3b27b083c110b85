# RENGA_UNWRAP_CC: the compiler that the script mpicc calls, and what the script gives it, so that each file is compiled
# without a shell. The wrapper stays where it does not say (-show of MPICH, -showme of Open MPI) or where that does not link.
#   CC             the compiler, if it can be had
#   CPPFLAGS, LIBS what compiles and links with MPI
AC_DEFUN([RENGA_UNWRAP_CC], [
AS_CASE(["$CC"], [*mpi*], [
AC_MSG_CHECKING([what $CC calls])
renga_words=$($CC -show 2>/dev/null) || renga_words=$($CC -showme 2>/dev/null) || renga_words=
renga_compiler= renga_compile= renga_link=
for renga_word in $renga_words; do
  AS_CASE([$renga_word],
    [-I*|-D*|-f*|-pthread], [renga_compile="$renga_compile $renga_word"],
    [-*|*.a|*.so], [renga_link="$renga_link $renga_word"],
    [AS_IF([test "x$renga_compile$renga_link" = x], [renga_compiler="$renga_compiler $renga_word"], [renga_link="$renga_link $renga_word"])])
done
renga_compiler=${renga_compiler# }
cat >conftest.c <<_ACEOF
#include <mpi.h>
int main(void) { return MPI_Init(0, 0); }
_ACEOF
AS_IF([test "x$renga_compiler" != x && $renga_compiler $renga_compile -o conftest conftest.c $renga_link >&AS_MESSAGE_LOG_FD 2>&1],
  [CC=$renga_compiler
   CPPFLAGS="$renga_compile $CPPFLAGS"
   LIBS="$renga_link $LIBS"
   AC_MSG_RESULT([$CC])],
  [AC_MSG_RESULT([it stays])])
rm -f conftest conftest.c])
])

# RENGA_QUICK_LIBTOOL: objects and programs do not need libtool's script where all objects are position-independent.
AC_DEFUN([RENGA_QUICK_LIBTOOL], [
AS_CASE([$host_os], [linux*], [LIBTOOL='$(SHELL) $(top_srcdir)/build-aux/quicklibtool $(top_builddir)/libtool'])
AC_SUBST([LIBTOOL])
])
