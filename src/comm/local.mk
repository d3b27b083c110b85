librenga_la_SOURCES += %D%/collective.c %D%/comm.c %D%/message.c %D%/sumtree.c %D%/tree.c %D%/view.c
noinst_HEADERS += %D%/commimpl.h %D%/sumtree.h
