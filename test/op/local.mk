op_tests = %D%/attributes %D%/table
check_PROGRAMS += $(op_tests)
%C%_attributes_SOURCES = %D%/attributes.c
%C%_table_SOURCES = %D%/table.c
TESTS += $(op_tests)
