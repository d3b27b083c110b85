librenga_la_SOURCES += %D%/partition.c %D%/manual.c %D%/even.c
noinst_HEADERS += %D%/partitionimpl.h
