librenga_la_SOURCES += %D%/partition.c %D%/manual.c %D%/even.c %D%/search/forecast.c
noinst_HEADERS += %D%/partitionimpl.h %D%/search/search.h include/renga/private/forecast.h
