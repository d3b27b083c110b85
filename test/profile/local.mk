profile_tests = %D%/analytic %D%/measured %D%/file
check_PROGRAMS += $(profile_tests)
tests += $(profile_tests)
