check_PROGRAMS += %D%/settings %D%/update
tests += %D%/settings %D%/update
noinst_HEADERS += %D%/trajectories.h
EXTRA_DIST += %D%/trajectories.py
