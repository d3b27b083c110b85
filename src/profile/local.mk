librenga_la_SOURCES += %D%/profile.c %D%/whole.c %D%/calls.c %D%/work.c %D%/analytic.c %D%/view.c \
  %D%/measured.c %D%/run.c %D%/fill.c %D%/store.c %D%/vectors.c %D%/links.c %D%/file.c %D%/save.c %D%/merged.c \
  %D%/measuring.c %D%/names.c %D%/outside.c %D%/settings.c
noinst_HEADERS += include/renga/private/cost.h %D%/profileimpl.h %D%/measured.h %D%/names.h
