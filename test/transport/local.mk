check_PROGRAMS += %D%/messages %D%/sums
TESTS += %D%/messages %D%/sums
noinst_HEADERS += %D%/transporttest.h
%C%_messages_SOURCES = %D%/messages.c
%C%_sums_SOURCES = %D%/sums.c
