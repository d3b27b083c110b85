comm_tests = %D%/blocks %D%/crossing %D%/folds %D%/groups %D%/messages %D%/sums %D%/sumtree %D%/timeout %D%/tree
check_PROGRAMS += $(comm_tests)
tests += $(comm_tests)
noinst_HEADERS += %D%/commtest.h %D%/sumtest.h
