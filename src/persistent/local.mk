librenga_la_SOURCES += %D%/rectangle.c %D%/holdings.c %D%/bring.c %D%/digest.c
noinst_HEADERS += include/renga/private/rectangle.h include/renga/private/holdings.h
