settings_tests = %D%/settings %D%/shared
check_PROGRAMS += $(settings_tests)
tests += $(settings_tests)
