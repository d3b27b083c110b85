settings_tests = %D%/settings %D%/shared
check_PROGRAMS += $(settings_tests)
TESTS += $(settings_tests)
