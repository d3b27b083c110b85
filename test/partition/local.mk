# The exact cuts against brute force, and against what others' planners found for published graphs.
partition_tests = %D%/brute %D%/bruteshard %D%/spread %D%/dnnpartitioning %D%/piper %D%/pipedream %D%/keep %D%/lanes %D%/tensorsearch %D%/degrees %D%/workbound
check_PROGRAMS += $(partition_tests)
tests += $(partition_tests)
noinst_HEADERS += %D%/graphs.h %D%/cutstest.h %D%/setting.h
%C%_dnnpartitioning_SOURCES = %D%/dnnpartitioning.c %D%/graphs.c
%C%_dnnpartitioning_LDADD = $(LDADD) $(JSON_C_LIBS)
%C%_piper_SOURCES = %D%/piper.c %D%/graphs.c
%C%_piper_LDADD = $(LDADD) $(JSON_C_LIBS)
%C%_pipedream_SOURCES = %D%/pipedream.c %D%/graphs.c %D%/profiles.c
%C%_pipedream_LDADD = $(LDADD) $(JSON_C_LIBS)
# Types of other planners.
types_tests = %D%/rannc %D%/tree %D%/types %D%/recompute %D%/wishes
check_PROGRAMS += $(types_tests)
tests += $(types_tests)
