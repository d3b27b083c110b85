librenga_la_SOURCES += %D%/convoy.c %D%/mpi.c %D%/parcel.c %D%/staged.c %D%/transport.c
noinst_HEADERS += include/renga/private/transport.h %D%/transportimpl.h
