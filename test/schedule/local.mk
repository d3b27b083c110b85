schedule_tests = %D%/formulas %D%/proof %D%/replicas
check_PROGRAMS += $(schedule_tests)
TESTS += $(schedule_tests)
noinst_HEADERS += test/plan/plantest.h
