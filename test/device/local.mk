device_tests = %D%/device %D%/fallback %D%/far %D%/kernels %D%/low %D%/lowkernels %D%/signals %D%/vectors
check_PROGRAMS += $(device_tests)
TESTS += $(device_tests)
noinst_HEADERS += %D%/calls.h %D%/cases.h %D%/lowcalls.h
check_PROGRAMS += %D%/cases %D%/dropout
%C%_cases_SOURCES = %D%/cases.c
%C%_dropout_SOURCES = %D%/dropout.c
TESTS += %D%/cases %D%/dropout %D%/farsuite.sh
EXTRA_DIST += %D%/farsuite.sh
EXTRA_DIST += %D%/cases/make.py %D%/cases/generated.txt %D%/cases/elementwise.txt %D%/cases/reduce.txt \
  %D%/cases/matrix.txt %D%/cases/move.txt %D%/cases/index.txt %D%/cases/errors.txt
