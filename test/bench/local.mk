# Built by `make test/bench/kernels`; doc/performance.md says what it prints.
EXTRA_PROGRAMS += %D%/kernels
