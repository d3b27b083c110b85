# In which way each node of a stage is computed by the ranks that share its width.
librenga_la_SOURCES += %D%/width.c %D%/places.c %D%/price.c %D%/front.c
noinst_HEADERS += %D%/widthimpl.h include/renga/private/width.h
