# Exact cuts of an abstract graph.
librenga_la_SOURCES += %D%/exact.c %D%/instance.c %D%/reduce.c %D%/lattice.c %D%/probe.c \
  %D%/grow.c %D%/critical.c %D%/linear.c %D%/chain.c %D%/colour.c %D%/alone.c %D%/shard.c \
  %D%/choice.c %D%/levels.c %D%/spread.c %D%/pack.c
noinst_HEADERS += %D%/exactimpl.h %D%/probe.h %D%/shard.h include/renga/private/cuts.h
