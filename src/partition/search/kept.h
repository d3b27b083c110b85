/* Stages that recompute: what they keep all the same, and of what else how much they make again at
   a time. */
#pragma once
#include "search.h"

/* ---- kept.c ---- */
RengaErrorCode RengaSearchKeptCreate_Private(RengaGraph graph, struct SearchKeptSets **sets);
void RengaSearchKeptFree_Private(struct SearchKeptSets **sets);
/* What a stage that recomputes keeps all the same, so that it makes the least again: of each
   micro-batch in flight it takes its bytes, for which there are so many in all; base takes none. */
RengaErrorCode RengaSearchChooseKept_Private(const SearchChain *chain,
                                             const RengaProfileCost costs[],
                                             const SearchModel *model, int64_t slots, double budget,
                                             const SearchKept *base, SearchStage *stage);
/* About the seconds that it then makes again: of a choice that need not be the best. */
RengaErrorCode RengaSearchAgainAbout_Private(const SearchChain *chain,
                                             const RengaProfileCost costs[],
                                             const SearchModel *model, int64_t slots, double budget,
                                             const SearchKept *base, const SearchStage *stage,
                                             double *again);
/* It keeps what crosses narrow places that cut it into so many parts of about equal saved bytes:
   one of them is made again at a time. */
RengaErrorCode RengaSearchCutKept_Private(const SearchChain *chain, const RengaProfileCost costs[],
                                          const SearchModel *model, int parts, SearchStage *stage);
/* As stage s of a plan has it. */
RengaErrorCode RengaSearchTakeKept_Private(const SearchChain *chain, const RengaProfileCost costs[],
                                           const SearchModel *model, RengaPlan plan, int s,
                                           SearchStage *stage);
void RengaSearchGetKept_Private(const SearchChain *chain, const SearchStage *stage, int *count,
                                const RengaValue **value); /* lent */
RengaErrorCode RengaSearchSetKept_Private(RengaGraph graph, RengaPlan plan, int s, int count,
                                          const RengaValue value[]);

/* ---- mixed.c ---- */
/* Of a layout's plan and memory, stages that recompute all: each keeps what there is room for; one
   that does not fit so keeps what has it make a part of itself again at a time. The
   plan is replaced. Nothing is done where the model has no such policy. */
RengaErrorCode RengaSearchMix_Private(const SearchTask *task, const SearchChain *chain,
                                      const SearchModel *model, SearchLayout *layout,
                                      RengaPlan *plan, RengaForecastMemory memory[], double *most);

/* Of the same, what each stage keeps at best, before the runtime is asked what it takes: no set
   that fits spares more seconds. temporary: [stages] bytes that it has of temporary tensors in any
   case; NULL: none. */
RengaErrorCode RengaSearchMixAtBest_Private(const SearchTask *task, const SearchChain *chain,
                                            const SearchModel *model, SearchLayout *layout,
                                            RengaPlan plan, const RengaForecastMemory memory[],
                                            const double temporary[]);
/* ---- segments.c ---- */
/* Stages of the task are to recompute all. */
bool RengaSearchSegments_Private(const SearchTask *task);
/* Of a layout's plan and memory: they are cut into as many parts, made again one at a time, as need
   the least memory. */
RengaErrorCode RengaSearchSegment_Private(const SearchTask *task, const SearchChain *chain,
                                          const SearchModel *model, SearchLayout *layout,
                                          RengaPlan plan, RengaForecastMemory memory[],
                                          double *most);
