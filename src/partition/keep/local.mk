# What a stage keeps, and what it makes again.
librenga_la_SOURCES += %D%/keep.c %D%/states.c %D%/price.c %D%/front.c
noinst_HEADERS += %D%/keepimpl.h include/renga/private/keep.h
