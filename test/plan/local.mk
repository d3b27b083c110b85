plan_tests = %D%/file %D%/messages %D%/partition %D%/plan %D%/shape %D%/view
check_PROGRAMS += $(plan_tests)
tests += $(plan_tests)
noinst_HEADERS += %D%/network.h
%C%_plan_LDADD = $(LDADD) $(JSON_C_LIBS)
%C%_view_LDADD = $(LDADD) $(JSON_C_LIBS)
