profile_tests = %D%/analytic %D%/measured
check_PROGRAMS += $(profile_tests)
TESTS += $(profile_tests)
