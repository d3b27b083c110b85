librenga_la_SOURCES += %D%/settings.c %D%/step.c %D%/options.c %D%/rows.c %D%/sums.c %D%/tables.c %D%/recompute.c %D%/offload.c
noinst_HEADERS += include/renga/private/settings.h
