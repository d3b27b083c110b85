librenga_la_SOURCES += %D%/partition.c %D%/manual.c %D%/even.c %D%/search/forecast.c
noinst_HEADERS += %D%/partitionimpl.h %D%/search/search.h include/renga/private/forecast.h
librenga_la_SOURCES += %D%/tree.c %D%/rannc/blocks.c %D%/rannc/stages.c
noinst_HEADERS += %D%/rannc/rannc.h
