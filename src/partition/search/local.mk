# The search for stages, replicas and micro-batches.
librenga_la_SOURCES += %D%/event.c %D%/forecast.c %D%/memory.c %D%/model.c %D%/candidates.c %D%/bound.c %D%/bounds.c %D%/least.c %D%/floor.c %D%/loaded.c %D%/cover.c %D%/layout.c \
  %D%/equal.c %D%/label.c %D%/chain.c %D%/listed.c %D%/layouts.c %D%/kinds.c %D%/orders.c %D%/fit.c %D%/solve.c %D%/solution.c %D%/challenge.c %D%/branch.c %D%/answer.c %D%/shards.c %D%/predict.c \
  %D%/exchanges.c %D%/levels.c %D%/explain.c %D%/proof.c %D%/refuse.c %D%/squeeze.c %D%/collect.c %D%/cuts.c %D%/rivals.c %D%/slant.c %D%/coarse.c \
  %D%/places.c %D%/schedules.c %D%/trial.c %D%/portfolio.c %D%/improve.c %D%/tables.c %D%/lanes.c %D%/terms.c %D%/parts.c %D%/twins.c %D%/bare.c %D%/regive.c %D%/zero.c %D%/ask.c
librenga_la_SOURCES += %D%/kept.c %D%/rates.c %D%/mixed.c %D%/segments.c %D%/values.c %D%/chunks.c %D%/deal.c %D%/work.c
noinst_HEADERS += %D%/event.h %D%/search.h %D%/parts.h %D%/model.h %D%/kept.h %D%/solution.h %D%/portfolio.h include/renga/private/forecast.h
