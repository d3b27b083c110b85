# What a stage keeps, tensor ranks.
partition_tests = %D%/keep %D%/lanes %D%/tensorsearch %D%/degrees %D%/kinds %D%/workbound
check_PROGRAMS += $(partition_tests)
tests += $(partition_tests)
noinst_HEADERS += %D%/setting.h
# Types of other planners.
types_tests = %D%/rannc %D%/tree %D%/types %D%/recompute %D%/wishes
check_PROGRAMS += $(types_tests)
tests += $(types_tests)
