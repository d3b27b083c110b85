schedule_tests = %D%/auto %D%/chunks %D%/formulas %D%/halves %D%/known %D%/network %D%/placed %D%/proof %D%/replicas %D%/timeline %D%/zerobubble
check_PROGRAMS += $(schedule_tests)
tests += $(schedule_tests)
noinst_HEADERS += test/carried.h test/delayed.h test/plan/plantest.h %D%/messages.h %D%/replay.h
