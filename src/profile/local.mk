librenga_la_SOURCES += %D%/profile.c %D%/whole.c %D%/calls.c %D%/work.c %D%/analytic.c
noinst_HEADERS += %D%/profileimpl.h
