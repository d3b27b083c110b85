librenga_la_SOURCES += %D%/partition.c %D%/object.c %D%/set.c %D%/options.c %D%/solve.c %D%/outside.c %D%/costsources.c %D%/get.c %D%/load.c %D%/passes.c %D%/manual.c %D%/even.c %D%/agree.c %D%/auto.c %D%/degrees.c %D%/fewerranks.c %D%/trialplans.c %D%/axes.c %D%/degreechoice.c %D%/degreelist.c %D%/groups.c
noinst_HEADERS += %D%/partitionimpl.h %D%/degrees.h
librenga_la_SOURCES += %D%/tree.c %D%/reading.c %D%/rannc/blocks.c %D%/rannc/stages.c \
  %D%/rannc/find.c %D%/rannc/rannc.c %D%/rannc/spread.c
noinst_HEADERS += %D%/rannc/rannc.h
