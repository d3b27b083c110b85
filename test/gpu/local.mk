# What a run on a GPU needs, and its script; make check runs both on the emulated runtime.
tests += %D%/first.sh %D%/pack.sh
EXTRA_DIST += %D%/first.sh %D%/pack.sh
