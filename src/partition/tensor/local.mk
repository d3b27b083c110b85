# Predictions of layouts whose ranks share tensors.
librenga_la_SOURCES += %D%/repeat.c %D%/saved.c %D%/ways.c %D%/price.c %D%/build.c %D%/choose.c \
  %D%/layout.c %D%/predict.c
noinst_HEADERS += %D%/tensorimpl.h %D%/layout.h
