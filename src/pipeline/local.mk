librenga_la_SOURCES += %D%/recompute.c %D%/agree.c %D%/arena.c %D%/bucket.c %D%/programnodes.c %D%/chunk.c %D%/count.c %D%/differentiate.c %D%/digest.c \
  %D%/emit.c %D%/event.c %D%/forecasts.c %D%/gate.c %D%/gradient.c %D%/holders.c %D%/input.c %D%/inspect.c %D%/kernel.c \
  %D%/key.c %D%/layout.c %D%/lossscale.c %D%/message.c %D%/named.c %D%/memorycaches.c %D%/nonfinite.c %D%/outline.c %D%/output.c %D%/parameter.c %D%/pass.c \
  %D%/persistent.c %D%/pipeline.c %D%/place.c %D%/prepare.c %D%/program.c %D%/prologue.c %D%/rank.c \
  %D%/reads.c %D%/result.c %D%/role.c %D%/route.c %D%/run.c %D%/samplelosses.c %D%/savedactivations.c %D%/schedules.c %D%/setup.c %D%/shard.c %D%/sizes.c %D%/state.c %D%/step.c %D%/tied.c %D%/allornone.c \
  %D%/offload.c %D%/updates.c %D%/view.c
noinst_HEADERS += %D%/chunk.h %D%/entry/entry.h %D%/exchange.h %D%/forecasts.h %D%/gradients.h %D%/layout.h %D%/memory.h %D%/outline.h %D%/parameter.h %D%/pipelineimpl.h %D%/portion.h \
  %D%/program.h %D%/rows.h %D%/updates.h %D%/window.h
librenga_la_SOURCES += %D%/entry/backward.c %D%/entry/exchange.c %D%/entry/forward.c %D%/entry/gather.c %D%/entry/kernels.c %D%/entry/link.c \
  %D%/entry/list.c %D%/entry/part.c %D%/entry/prove.c %D%/entry/sum.c %D%/entry/update.c %D%/entry/values.c
librenga_la_SOURCES += %D%/rows.c %D%/rowsums.c
librenga_la_SOURCES += %D%/reducescatter.c %D%/group.c %D%/concatenatedparts.c %D%/gradientplaces.c %D%/parts.c %D%/tensor.c %D%/conflict.c %D%/bucketrows.c %D%/microbatchorder.c %D%/window.c
noinst_HEADERS += include/renga/private/fetches.h
