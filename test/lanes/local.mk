check_PROGRAMS += %D%/layouts
tests += %D%/layouts
%C%_layouts_SOURCES = %D%/layouts.c %D%/cases.c %D%/choices.c %D%/fixed.c %D%/refused.c %D%/networks.c %D%/plans.c %D%/train.c \
  test/onnx/text.c test/onnx/write.c
noinst_HEADERS += %D%/cases.h %D%/networks.h %D%/plans.h %D%/train.h
