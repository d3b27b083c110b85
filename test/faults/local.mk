# Failures on purpose: the n-th allocation, message, write to a file or read of a sample.
faults_tests = %D%/each %D%/calls %D%/gather
check_PROGRAMS += $(faults_tests)
tests += $(faults_tests) %D%/shard.sh %D%/actions.sh %D%/link.sh %D%/hosts.sh %D%/nodes.sh %D%/slurm.sh %D%/byhand.sh %D%/launch.sh
EXTRA_DIST += %D%/namespaces.sh %D%/shard.sh %D%/actions.sh %D%/link.sh %D%/hosts.sh %D%/nodes.sh %D%/slurm.sh %D%/byhand.sh %D%/launch.sh
%C%_each_SOURCES = %D%/each.c %D%/parts.c %D%/faults.h
%C%_calls_SOURCES = %D%/calls.c
%C%_gather_SOURCES = %D%/gather.c test/flying.c
