# The search against every layout of small models; its bound against plans of all kinds.
search_tests = %D%/layouts %D%/bound %D%/branch %D%/options %D%/shapes %D%/short
check_PROGRAMS += $(search_tests)
tests += $(search_tests)
noinst_HEADERS += %D%/random.h
