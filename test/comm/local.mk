comm_tests = %D%/groups %D%/messages %D%/sumtree %D%/timeout %D%/tree
check_PROGRAMS += $(comm_tests)
TESTS += $(comm_tests)
noinst_HEADERS += %D%/commtest.h
