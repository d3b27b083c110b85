librenga_la_SOURCES += %D%/agree.c %D%/arena.c %D%/ask.c %D%/choose.c %D%/emit.c %D%/forecast.c %D%/gradient.c %D%/holders.c \
  %D%/inspect.c %D%/kernel.c %D%/layout.c %D%/link.c %D%/lists.c %D%/named.c %D%/outcome.c %D%/output.c %D%/persistent.c %D%/pipeline.c %D%/place.c %D%/prepare.c \
  %D%/program.c %D%/prologue.c %D%/run.c %D%/setup.c %D%/stage.c %D%/state.c %D%/step.c %D%/tied.c %D%/together.c \
  %D%/view.c
noinst_HEADERS += %D%/layout.h %D%/pipelineimpl.h
