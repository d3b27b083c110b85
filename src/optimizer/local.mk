librenga_la_SOURCES += %D%/adam.c %D%/groups.c %D%/optimizer.c %D%/outside.c %D%/options.c %D%/schedule.c %D%/sgd.c %D%/sparse.c
noinst_HEADERS += include/renga/private/optimizer.h %D%/optimizerimpl.h
