device_tests = %D%/device %D%/fallback %D%/far %D%/fp8 %D%/kernels %D%/low %D%/lowkernels %D%/signals %D%/spans %D%/vectors
check_PROGRAMS += $(device_tests)
tests += $(device_tests)
noinst_HEADERS += %D%/calls.h %D%/cases.h %D%/guard.h %D%/lowcalls.h
check_PROGRAMS += %D%/cases %D%/dropout %D%/narrowisa %D%/packed %D%/rowsum
%C%_cases_SOURCES = %D%/cases.c
%C%_dropout_SOURCES = %D%/dropout.c
%C%_packed_SOURCES = %D%/packed.c
%C%_rowsum_SOURCES = %D%/rowsum.c
tests += %D%/cases %D%/dropout %D%/narrowisa %D%/packed %D%/rowsum %D%/farsuite.sh %D%/times.sh
EXTRA_DIST += %D%/farsuite.sh %D%/times.sh
EXTRA_DIST += %D%/cases/make.py %D%/cases/generated.txt %D%/cases/elementwise.txt %D%/cases/reduce.txt \
  %D%/cases/matrix.txt %D%/cases/move.txt %D%/cases/index.txt %D%/cases/errors.txt
