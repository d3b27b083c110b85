librenga_la_SOURCES += %D%/1f1b.c %D%/actions.c %D%/build.c %D%/actionrules.c %D%/fill.c %D%/gpipe.c %D%/inflight.c %D%/interleave.c %D%/provedtypes.c %D%/list.c \
  %D%/messages.c %D%/order.c %D%/outside.c %D%/prove.c %D%/commonlist.c %D%/rows.c %D%/schedule.c %D%/sequence.c %D%/shape.c %D%/simulate.c %D%/simulatenetwork.c %D%/tracenetwork.c %D%/network.c %D%/queue.c %D%/sums.c %D%/view.c \
  %D%/zerobubble.c %D%/auto.c %D%/draw.c %D%/dualpipe.c %D%/file.c %D%/greedy.c \
  %D%/interleaved.c %D%/pattern.c %D%/placement.c %D%/planshape.c %D%/timeline.c %D%/zbv.c
noinst_HEADERS += include/renga/private/schedule.h %D%/network.h %D%/pattern.h %D%/proof.h %D%/queue.h %D%/scheduleimpl.h
