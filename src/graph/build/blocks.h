/* Parts that builders share. Unless something else is said, x is [batch, places, width]. */
#pragma once
#include "../graphimpl.h"

enum { BLOCK_NAME = 96 };
/* PREFIXpart */
const char *RengaBlockName(const char *prefix, const char *part, char text[BLOCK_NAME]);
/* A parameter [rows, width] that begins normal. */
RengaErrorCode RengaBlockTable(RengaGraph graph, const char *name, int64_t rows, int64_t width,
                               double deviation, RengaValue *table);
/* Widths of layers, "784-2048-10", as far as there are; key is the setting that they come from. */
enum { BLOCK_WIDTHS = 128, BLOCK_WIDEST = 100000000 };
RengaErrorCode RengaBlockReadWidths(const char *builder, const char *key, const char *text,
                                    int *count, int64_t width[BLOCK_WIDTHS]);
/* A node of at most so many outputs, which may be stored where its inputs were; its attributes, or
   NULL, are freed. */
enum { BLOCK_OUTPUTS = 3 };
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
/* x / sqrt(mean of squares) with a new parameter NAME.weight */
RengaErrorCode RengaBlockRmsNormalization(RengaGraph graph, const char *name, RengaValue x,
                                          double epsilon, RengaValue *y);
/* x [N,T,d] -> [N,T,rows] against the rows of a table, with a bias or RENGA_VALUE_NONE */
RengaErrorCode RengaBlockScores(RengaGraph graph, const char *name, RengaValue x, RengaValue table,
                                RengaValue bias, RengaValue *scores);
/* x + dropout(y) */
RengaErrorCode RengaBlockResidual(RengaGraph graph, RengaValue x, RengaValue y, double dropout,
                                  RengaValue *sum);
/* The kind of a distance from a query to a key, of T5; both: it looks both ways. */
int64_t RengaBlockBucket(int64_t ahead, bool both, int64_t buckets, int64_t distance);
/* int64 input [N,places]; places 0: [N] */
RengaErrorCode RengaBlockIntegers(RengaGraph graph, const char *name, int64_t places,
                                  RengaValue *value);
/* As RengaGraphAddCrossEntropy with labels of -100 left out; a share of each label is spread evenly
   over all classes (Szegedy et al. 2016). */
RengaErrorCode RengaBlockSmoothLoss(RengaGraph graph, RengaValue scores, RengaValue labels,
                                    double share, RengaValue *loss);
/* The loss of the network, and its outputs: the loss and the scores. */
RengaErrorCode RengaBlockFinish(RengaGraph graph, RengaValue loss, RengaValue scores);
