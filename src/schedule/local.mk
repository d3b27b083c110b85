librenga_la_SOURCES += %D%/1f1b.c %D%/build.c %D%/gpipe.c %D%/messages.c %D%/order.c %D%/outside.c %D%/prove.c \
  %D%/schedule.c %D%/simulate.c %D%/view.c
noinst_HEADERS += %D%/scheduleimpl.h
