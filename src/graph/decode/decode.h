/* A network that is made token by token: how what it was made of is found again in it. */
#pragma once
#include "../graphimpl.h"

typedef enum {
  DECODED_NOT,    /* there is no way to make it of a token and the caches */
  DECODED_WHOLE,  /* it depends on no sample, and is made as it was */
  DECODED_BESIDE, /* it depends on other inputs than the tokens: an encoder's, which is beside it */
  DECODED_ALONG   /* it has the tokens of a text along a dimension, and here one of them */
} DecodedKind;

/* Of a value of the network. */
typedef struct {
  DecodedKind kind;
  int dim;          /* of the tokens */
  RengaValue value; /* in the decoder */
} DecodedValue;

typedef struct {
  RengaGraph from, to;
  int64_t places;         /* tokens that the network sees */
  int64_t texts;          /* whose keys and values are kept */
  RengaValue text, place; /* inputs of the decoder */
  RengaValue source;      /* an input: the last place of a text's source; NONE yet */
  DecodedValue *made;     /* by value of the network */
  int caches;
  char why[384]; /* it is not possible: the first node that needs more than a token */
} Decoder;

/* Parts of an attention of the network; k and v have as few heads as there are. */
typedef struct {
  RengaValue q, k, v, mask;
  bool causal, flipped; /* flipped: k is [N, heads, width, T] */
  double scale, cap;
} DecodedAttention;

/* ---- decodervalues.c ---- */
/* The node that makes the value, if it is of that operator. */
const RengaGraphNode *RengaDecodeMaker_Private(RengaGraph graph, RengaValue value, const char *op);
/* The value of the decoder; a parameter or constant is added when it is first read. */
RengaErrorCode RengaDecodeRead_Private(Decoder *decoder, RengaValue value, DecodedValue *made);
/* Of a value that is made whole, and has all places along dimension t, those of the samples: [N, …]
   of so many dimensions, to be broadcast, with extent 1 for the places. */
RengaErrorCode RengaDecodePlaces_Private(Decoder *decoder, RengaValue value, int t, int ndim,
                                         RengaValue *picked);
/* The last two dimensions change places. */
RengaErrorCode RengaDecodeFlip_Private(Decoder *decoder, RengaValue *x);
/* A shape with one token along dim; -1: as it is. */
RengaTensorSpec RengaDecodeShape_Private(const RengaTensorSpec *spec, int dim);
/* A node that makes a value of the network, of which the decoder has one token along dim. */
RengaErrorCode RengaDecodeMake_Private(Decoder *decoder, const RengaGraphNode *node, const char *op,
                                       const RengaAttributes *attributes, const RengaValue in[],
                                       int n_in, const int dim[]);
/* Says it of the first such node. */
void RengaDecodeRefuse_Private(Decoder *decoder, const RengaGraphNode *node, const char *why);

/* ---- attention.c ---- */
/* found: the node is an attention, or the last of the nodes of one, which is made with caches where
   that is possible. */
RengaErrorCode RengaDecodeAttention_Private(Decoder *decoder, const RengaGraphNode *node,
                                            bool *found);
/* ---- memory.c ---- */
/* An attention to keys and values that an encoder makes. */
RengaErrorCode RengaDecodeMemory_Private(Decoder *decoder, const RengaGraphNode *node,
                                         const DecodedAttention *form);
