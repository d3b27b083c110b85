profile_tests = %D%/analytic
check_PROGRAMS += $(profile_tests)
TESTS += $(profile_tests)
