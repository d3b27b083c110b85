librenga_la_SOURCES += %D%/schedule.c %D%/gpipe.c %D%/1f1b.c %D%/prove.c %D%/simulate.c %D%/view.c \
  %D%/messages.c
noinst_HEADERS += %D%/scheduleimpl.h
