librenga_la_SOURCES += %D%/plan.c %D%/check.c %D%/view.c %D%/file.c %D%/read.c %D%/fill.c \
  %D%/describe.c %D%/json.c %D%/draw.c %D%/compare.c %D%/prediction.c %D%/places.c %D%/arithmetic.c \
  %D%/shape.c %D%/kept.c %D%/statistics.c %D%/lanes.c %D%/text.c %D%/layout.c
noinst_HEADERS += %D%/planimpl.h include/renga/private/plan.h include/renga/private/layout.h
