librenga_la_SOURCES += %D%/1f1b.c %D%/actions.c %D%/build.c %D%/facts.c %D%/fill.c %D%/gpipe.c %D%/held.c %D%/interleave.c %D%/list.c \
  %D%/messages.c %D%/order.c %D%/outside.c %D%/prove.c %D%/rows.c %D%/schedule.c %D%/sequence.c %D%/shape.c %D%/simulate.c %D%/sums.c %D%/view.c
noinst_HEADERS += %D%/proof.h %D%/scheduleimpl.h
