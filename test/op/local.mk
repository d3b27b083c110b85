op_tests = %D%/attributes %D%/split %D%/table
check_PROGRAMS += $(op_tests)
%C%_attributes_SOURCES = %D%/attributes.c
%C%_split_SOURCES = %D%/split.c
%C%_table_SOURCES = %D%/table.c
noinst_HEADERS += %D%/splitcases.h %D%/splittrial.h
tests += $(op_tests)
