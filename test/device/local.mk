device_tests = %D%/device %D%/kernels %D%/vectors
check_PROGRAMS += $(device_tests)
TESTS += $(device_tests)
noinst_HEADERS += %D%/calls.h %D%/cases.h
