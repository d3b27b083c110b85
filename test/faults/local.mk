# Failures on purpose: the n-th allocation, message or write to a file fails, for every n.
faults_tests = %D%/allocation
check_PROGRAMS += $(faults_tests)
%C%_allocation_SOURCES = %D%/allocation.c
