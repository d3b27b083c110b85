librenga_la_SOURCES += %D%/settings.c %D%/step.c %D%/options.c %D%/rows.c
noinst_HEADERS += include/renga/private/settings.h
