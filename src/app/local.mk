bin_PROGRAMS += renga
renga_SOURCES = %D%/main.c %D%/network.c %D%/fields.c %D%/monitor.c %D%/summary.c %D%/terminal.c %D%/timelimit.c \
  %D%/train.c %D%/initial.c %D%/samples.c %D%/forward.c %D%/eval.c %D%/predict.c %D%/origin.c %D%/info.c %D%/parameters.c %D%/plan.c %D%/nodes.c %D%/options.c %D%/curve.c %D%/profile.c \
  %D%/data.c %D%/generate.c %D%/accuracy.c %D%/reading.c %D%/share.c %D%/files.c %D%/hiding.c
renga_LDADD = $(OUTSIDE_LDADD)
noinst_HEADERS += %D%/app.h
