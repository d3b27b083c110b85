device_tests = %D%/kernels
check_PROGRAMS += $(device_tests)
TESTS += $(device_tests)
noinst_HEADERS += %D%/cases.h
