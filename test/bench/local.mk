# Built by `make test/bench/kernels`; doc/performance.md says what it prints.
EXTRA_PROGRAMS += %D%/kernels

# Built by `make test/bench/checkpoint`.
EXTRA_PROGRAMS += %D%/checkpoint
%C%_checkpoint_SOURCES = %D%/checkpoint.c
