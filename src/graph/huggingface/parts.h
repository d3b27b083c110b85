/* What the builders of huggingface/ share. Unless something else is said, x is [batch, places,
   width]. */
#pragma once
#include "huggingface.h"

/* Blocks without and with a window of attention. */
enum { RENGA_HF_FULL, RENGA_HF_LOCAL, RENGA_HF_KINDS };

typedef struct {
  RengaGraph graph;
  const RengaHfFamily *family;
  const RengaHfNames *names;
  const RengaHfConfig *config;
  int64_t sequence;
  double dropout[RENGA_HF_DROPOUTS];
  RengaValue positions; /* [N, places], in rows of several documents; or RENGA_VALUE_NONE */
  RengaValue memory;    /* of the encoder beside a decoder; or RENGA_VALUE_NONE */
  /* [places, width of a head], with positions [N, 1, places, width of a head] */
  RengaValue cosine[RENGA_HF_KINDS], sine[RENGA_HF_KINDS];
  RengaValue mask[RENGA_HF_KINDS]; /* added to scores, or RENGA_VALUE_NONE */
  bool causal, local;              /* local: the block has a window */
  char prefix[64];                 /* of the block's names */
} RengaHfParts;

/* parts.c */
RengaHfParts RengaHfStartParts(RengaGraph graph, const RengaHfModel *model,
                               const RengaHfOptions *options);
/* A product with a parameter, as the state dict has it. */
RengaErrorCode RengaHfAddProduct(const RengaHfParts *p, const char *part, RengaValue x,
                                 int64_t width, bool bias, RengaValue *y);
/* part NULL: there is none, y is x. */
RengaErrorCode RengaHfAddNorm(const RengaHfParts *p, const char *part, RengaValue x, RengaValue *y);
/* Cosines and sines of the angles of blocks of a kind. */
RengaErrorCode RengaHfAddAngles(RengaHfParts *p, int kind);
/* x times a factor; name: of the result, or NULL */
RengaErrorCode RengaHfAddFactor(RengaGraph graph, double factor, const char *name, RengaValue *x);
/* cap * tanh(x / cap) */
RengaErrorCode RengaHfAddCap(RengaGraph graph, double cap, const char *name, RengaValue *x);
/* projection(attention(x)) */
RengaErrorCode RengaHfAddAttention(const RengaHfParts *p, RengaValue x, RengaValue *y);
RengaErrorCode RengaHfAddActivation(const RengaHfParts *p, RengaHfActivation activation,
                                    RengaValue x, RengaValue *y);
/* down(activation(gate(x)) * up(x)), or down(activation(up(x))) */
RengaErrorCode RengaHfAddFeedForward(const RengaHfParts *p, RengaValue x, RengaValue *y);
/* x + attention and x + feed-forward, each of a norm, or both of the same x; between them
   attention to the memory */
RengaErrorCode RengaHfAddBlock(const RengaHfParts *p, RengaValue *x);
/* decoder.c: scores of the words that follow tokens; local NULL: no block has a window. */
RengaErrorCode RengaHfAddDecoder(RengaHfParts *p, const bool local[], RengaValue tokens,
                                 RengaValue *scores);
/* encoder.c: a parameter [rows, width of the network], and rows of one; that of padding gets no
   gradient. */
RengaErrorCode RengaHfAddTable(const RengaHfParts *p, const char *name, int64_t rows,
                               RengaValue *table);
RengaErrorCode RengaHfAddRows(const RengaHfParts *p, RengaValue table, RengaValue rows,
                              int64_t padding, RengaValue *y);
/* The first rows of a table, the same for all samples. */
RengaErrorCode RengaHfAddFirstRows(const RengaHfParts *p, RengaValue table, int64_t rows,
                                   RengaValue *y);
