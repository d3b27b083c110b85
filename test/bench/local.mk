EXTRA_DIST += %D%/costs.py %D%/generation.py %D%/heal.py %D%/images.py %D%/namespaces.sh %D%/slowdisk.sh %D%/peer.py %D%/peer_parallel.py %D%/planners.py %D%/prediction.py %D%/python_step.py %D%/rows.py %D%/scale.py %D%/steps.py %D%/timelines.py

# Built by `make test/bench/kernels`; doc/performance.md says what it prints.
EXTRA_PROGRAMS += %D%/kernels
%C%_kernels_SOURCES = %D%/kernels.c %D%/ceilings.c %D%/ceilings.h

# Built by `make test/bench/checkpoint`.
EXTRA_PROGRAMS += %D%/checkpoint
%C%_checkpoint_SOURCES = %D%/checkpoint.c

# Built by `make test/bench/partition`.
EXTRA_PROGRAMS += %D%/partition
%C%_partition_SOURCES = %D%/partition.c
%C%_partition_LDADD = $(SOLVERS_LDADD)

# Built by `make test/bench/densify`.
EXTRA_PROGRAMS += %D%/densify
%C%_densify_SOURCES = %D%/densify.c

# Built by `make test/bench/sums`; doc/performance.md says what it prints.
EXTRA_PROGRAMS += %D%/sums
%C%_sums_SOURCES = %D%/sums.c
