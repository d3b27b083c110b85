EXTRA_DIST += %D%/peer.py %D%/planners.py %D%/prediction.py %D%/scale.py %D%/steps.py

# Built by `make test/bench/kernels`; doc/performance.md says what it prints.
EXTRA_PROGRAMS += %D%/kernels

# Built by `make test/bench/checkpoint`.
EXTRA_PROGRAMS += %D%/checkpoint
%C%_checkpoint_SOURCES = %D%/checkpoint.c

# Built by `make test/bench/partition`.
EXTRA_PROGRAMS += %D%/partition
%C%_partition_SOURCES = %D%/partition.c test/partition/graphs.c test/partition/profiles.c
%C%_partition_LDADD = $(LDADD) $(JSON_C_LIBS)
