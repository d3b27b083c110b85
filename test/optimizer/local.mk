check_PROGRAMS += %D%/settings %D%/update
TESTS += %D%/settings %D%/update
noinst_HEADERS += %D%/trajectories.h
EXTRA_DIST += %D%/trajectories.py
