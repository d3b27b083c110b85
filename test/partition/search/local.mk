# The search against every layout of small models; its bound against plans of all kinds.
search_tests = %D%/layouts %D%/bound
check_PROGRAMS += $(search_tests)
TESTS += $(search_tests)
