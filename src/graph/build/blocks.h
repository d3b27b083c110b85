/* Parts that the builders of transformer networks share. Everything is [batch, places, width]. */
#pragma once
#include "../graphimpl.h"

enum { BLOCK_NAME = 96 };
/* PREFIXpart */
const char *RengaBlockName(const char *prefix, const char *part, char text[BLOCK_NAME]);
/* A parameter [rows, width] that begins normal. */
RengaErrorCode RengaBlockTable(RengaGraph graph, const char *name, int64_t rows, int64_t width,
                               double deviation, RengaValue *table);
/* Outputs of a node, its attributes freed. */
RengaErrorCode RengaBlockNode(RengaGraph graph, const char *op, const char *name,
                              RengaAttributes *attributes, int n_in, const RengaValue in[],
                              int n_out, RengaValue out[]);
/* x times a number */
RengaErrorCode RengaBlockScale(RengaGraph graph, RengaValue x, double factor, RengaValue *y);
/* [N,T,n*d] -> n times [N,heads,T,d/heads] */
RengaErrorCode RengaBlockSplitHeads(RengaGraph graph, RengaValue x, int n, int64_t heads,
                                    RengaValue part[]);
/* [N,heads,T,w] -> [N,T,heads*w] */
RengaErrorCode RengaBlockJoinHeads(RengaGraph graph, RengaValue x, RengaValue *y);
/* As RengaGraphAddAttention; mask is added to the scores, or RENGA_VALUE_NONE. */
typedef struct {
  RengaValue q, k, v, mask;
  double scale, dropout;
  bool causal;
} RengaBlockHeads;
RengaErrorCode RengaBlockAttention(RengaGraph graph, const RengaBlockHeads *heads, RengaValue *y);
/* int64 [N,S], 0 where there is only padding -> float32 [N,1,1,S], minus infinity there */
RengaErrorCode RengaBlockPaddingMask(RengaGraph graph, RengaValue tokens, RengaValue *mask);
/* x [N,T,d] -> [N,T,rows] against the rows of a table, with a bias or RENGA_VALUE_NONE */
RengaErrorCode RengaBlockScores(RengaGraph graph, const char *name, RengaValue x, RengaValue table,
                                RengaValue bias, RengaValue *scores);
/* x + dropout(y) */
RengaErrorCode RengaBlockResidual(RengaGraph graph, RengaValue x, RengaValue y, double dropout,
                                  RengaValue *sum);
/* int64 input [N,places]; places 0: [N] */
RengaErrorCode RengaBlockIntegers(RengaGraph graph, const char *name, int64_t places,
                                  RengaValue *value);
/* The loss of the network, and its outputs: the loss and the scores. */
RengaErrorCode RengaBlockFinish(RengaGraph graph, RengaValue loss, RengaValue scores);
