machine_tests = %D%/machine
check_PROGRAMS += $(machine_tests)
tests += $(machine_tests)
