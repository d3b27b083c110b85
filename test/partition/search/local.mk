# The search against every layout of small models.
search_tests = %D%/layouts
check_PROGRAMS += $(search_tests)
TESTS += $(search_tests)
