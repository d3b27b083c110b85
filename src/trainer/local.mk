librenga_la_SOURCES += %D%/trainer.c %D%/monitor.c %D%/reader.c %D%/run.c %D%/evaluate.c %D%/learners.c %D%/learnerfiles.c %D%/mean.c %D%/gossip.c %D%/hiding.c %D%/copies.c
noinst_HEADERS += %D%/trainerimpl.h %D%/learners.h %D%/mean.h
