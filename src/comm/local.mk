librenga_la_SOURCES += %D%/blocks.c %D%/carrier.c %D%/collective.c %D%/comm.c %D%/exchange.c %D%/fortran.c %D%/hardware.c %D%/message.c %D%/nodememory.c %D%/nodes.c %D%/same.c \
  %D%/sum.c %D%/sumlevels.c %D%/sumroutes.c %D%/sumtree.c %D%/switches.c %D%/tree.c %D%/underway.c %D%/view.c
noinst_HEADERS += include/renga/private/sums.h include/renga/private/line.h include/renga/private/same.h %D%/commimpl.h %D%/nodememory.h %D%/sum.h
