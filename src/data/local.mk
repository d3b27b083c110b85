librenga_la_SOURCES += %D%/convert.c %D%/data.c %D%/file.c %D%/hdf5.c %D%/shuffle.c %D%/synthetic.c %D%/text.c
noinst_HEADERS += %D%/dataimpl.h
