librenga_la_SOURCES += %D%/adam.c %D%/groups.c %D%/optimizer.c %D%/options.c %D%/schedule.c %D%/sgd.c
noinst_HEADERS += %D%/optimizerimpl.h
