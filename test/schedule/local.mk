schedule_tests = %D%/chunks %D%/formulas %D%/halves %D%/proof %D%/replicas
check_PROGRAMS += $(schedule_tests)
TESTS += $(schedule_tests)
noinst_HEADERS += test/delayed.h test/plan/plantest.h %D%/messages.h
