check_PROGRAMS += %D%/messages %D%/pipelines %D%/sums
tests += %D%/faults.sh %D%/messages %D%/pipelines %D%/sums
noinst_HEADERS += %D%/transporttest.h
EXTRA_DIST += %D%/faults.sh
%C%_messages_SOURCES = %D%/messages.c
%C%_pipelines_SOURCES = %D%/pipelines.c
%C%_sums_SOURCES = %D%/sums.c
