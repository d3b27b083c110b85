# The script of the run on a GPU; make check runs it on the emulated runtime.
tests += %D%/first.sh
EXTRA_DIST += %D%/first.sh
