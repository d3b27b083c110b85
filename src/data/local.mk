librenga_la_SOURCES += %D%/convert.c %D%/data.c %D%/file.c %D%/hdf5.c %D%/hdf5write.c %D%/idx.c %D%/shuffle.c \
  %D%/synthetic.c %D%/text.c
noinst_HEADERS += %D%/dataimpl.h %D%/hdf5impl.h
