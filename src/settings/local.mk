librenga_la_SOURCES += %D%/settings.c %D%/step.c %D%/options.c %D%/rows.c %D%/sums.c %D%/tables.c %D%/memory.c
noinst_HEADERS += include/renga/private/settings.h
