machine_tests = %D%/machine
check_PROGRAMS += $(machine_tests)
TESTS += $(machine_tests)
