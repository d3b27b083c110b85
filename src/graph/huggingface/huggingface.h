/* Networks of Hugging Face folders: config.json and a table of families say what is built.
   Parameters have the names and shapes of the family's state dict. */
#pragma once
#include "../build/blocks.h"
#include <json-c/json.h>

typedef enum { RENGA_HF_RMS, RENGA_HF_RMS_PLUS_ONE, RENGA_HF_LAYER } RengaHfNorm;
typedef enum { RENGA_HF_SILU, RENGA_HF_GELU, RENGA_HF_GELU_TANH, RENGA_HF_RELU } RengaHfActivation;
/* The columns of one product that makes queries, keys and values: all queries first, or for each
   head its own three. */
typedef enum { RENGA_HF_SECTIONS, RENGA_HF_BY_HEAD } RengaHfColumns;

/* Names in the state dict, those of a block without its prefix; NULL: the family has no such part.
 */
typedef struct RengaHfNames {
  const char *table, *places, *blocks; /* blocks: "model.layers." */
  const char *before_attention, *q, *k, *v, *qkv, *q_norm, *k_norm, *projection, *after_attention;
  const char *before_feed, *gate, *up, *gate_up, *down, *after_feed;
  const char *last, *head;
  const char *segments, *table_norm, *transform, *head_bias; /* of encoders; last: a norm */
  const char *after_blocks;
  const char *patches, *first; /* of images */
  const char *sound;           /* of its convolutions */
  /* Of a decoder's blocks: attention to the encoder. Of the encoder beside it. */
  const struct RengaHfNames *cross, *encoder;
} RengaHfNames;

/* Angles by which positions turn. */
typedef enum {
  RENGA_HF_ROPE_DEFAULT,
  RENGA_HF_ROPE_LINEAR,
  RENGA_HF_ROPE_LLAMA3,
  RENGA_HF_ROPE_YARN,
  RENGA_HF_ROPE_LONGROPE
} RengaHfScaling;
typedef struct {
  double base, share; /* share: of a head's numbers, which turn */
  RengaHfScaling scaling;
  double factor, low, high, original; /* of the scaling; 0: not said */
  double attention;                   /* by which cosines and sines are multiplied; 0: not said */
  double
      *divisor[2]; /* [numbers of a head / 2] of frequencies in short and long sequences, owned */
  int64_t n_divisors[2];
} RengaHfRope;

/* Shares that training sets to zero: of embeddings, of attention, of what is added to x. */
enum { RENGA_HF_OF_EMBEDDINGS, RENGA_HF_OF_ATTENTION, RENGA_HF_OF_RESIDUALS, RENGA_HF_DROPOUTS };

/* Which products and norms have biases: queries, keys and values; those and what follows them; the
   feed-forward layer; norms; a layer behind the blocks; the scores. */
enum {
  RENGA_HF_BIAS_QKV,
  RENGA_HF_BIAS_ALL,
  RENGA_HF_BIAS_FEED,
  RENGA_HF_BIAS_NORM,
  RENGA_HF_BIAS_TRANSFORM,
  RENGA_HF_BIAS_HEAD,
  RENGA_HF_BIASES
};
/* Of a decoder beside an encoder: its layers, in T5 0: as many as the encoder has; heads, the width
   inside a block, and learned positions. Of T5: kinds of distances, and from where on they are of
   one kind. Of Whisper: numbers for each frame of sound. */
enum {
  RENGA_HF_DECODER_LAYERS,
  RENGA_HF_DECODER_HEADS,
  RENGA_HF_DECODER_INTERMEDIATE,
  RENGA_HF_TARGETS,
  RENGA_HF_BUCKETS,
  RENGA_HF_DISTANCE,
  RENGA_HF_MELS,
  RENGA_HF_STACKS
};
/* Is there a factor in the feed-forward layer, are scores scaled? */
enum { RENGA_HF_GATED, RENGA_HF_SCALED };

/* What config.json says. */
typedef struct {
  int64_t layers, hidden, heads, groups, head_width, intermediate, places, vocabulary;
  int64_t image[3]; /* its side, the side of a patch, channels; vocabulary: its classes */
  int64_t window, full_layers, pattern; /* full_layers: that come before those with a window */
  int64_t segments;                     /* kinds of sentences */
  int64_t stack[RENGA_HF_STACKS];       /* of an encoder with a decoder */
  int64_t padding; /* 1 + the row that gets no gradient where tokens read it; 0: none */
  double epsilon, deviation, attention_scale, embedding_scale, residual_scale;
  double score_divisor, score_cap, attention_cap;
  double dropout[RENGA_HF_DROPOUTS];
  bool tied, parallel, windowed, bias[RENGA_HF_BIASES], of_t5[2];
  RengaHfActivation activation;
  RengaHfRope rope[2]; /* without, and with a window, which differ where pattern is not 0 */
} RengaHfConfig;

/* What the user says: hf:FOLDER,sequence=…; dropout -1: what config.json says. */
typedef struct {
  int64_t sequence, target;  /* target 0: as long as the source */
  int64_t segments, padding; /* of encoders: is there such an input? */
  int64_t packed;            /* of decoders: rows hold several documents */
  double dropout;
  const char *folder, *config; /* config: the text of FOLDER/config.json */
  double share;                /* of the widths that config says, in a part; 0: all of them */
} RengaHfOptions;

typedef struct RengaHfModel RengaHfModel;
typedef struct {
  const char *type, *architecture;
  const RengaHfNames *names;
  RengaHfNorm norm;
  RengaHfColumns columns;
  bool transposed;                /* weights are [inputs, outputs] */
  bool wide_norm;                 /* q_norm and k_norm: over all heads together */
  bool bare_keys;                 /* keys have no bias */
  bool head_bias;                 /* the output layer of a decoder has one */
  bool counts_words;              /* positions are those of words, without padding */
  bool bare_norms;                /* they have biases only where the configuration says so */
  bool gelu_head;                 /* an encoder's, whatever activation its blocks have */
  const RengaHfConfig *otherwise; /* of keys that config.json leaves out */
  /* Layer i, from 0, has a window, where config.json has no layer_types; NULL: all have. */
  bool (*is_local)(const RengaHfConfig *config, int64_t i);
  /* Once all keys are read. */
  void (*complete)(RengaHfConfig *config);
  RengaErrorCode (*build)(RengaGraph graph, const RengaHfModel *model,
                          const RengaHfOptions *options);
  /* Widths become that share of what they are; NULL: the family cannot be divided. */
  void (*narrow)(RengaHfConfig *config, double share);
} RengaHfFamily;

/* A config.json that was read, until RengaHfFreeModel. local: [layers] */
struct RengaHfModel {
  const char *folder;
  const RengaHfFamily *family;
  RengaHfConfig *config;
  bool *local;
};

/* Its settings are a RengaHfOptions. */
extern const RengaGraphBuilder RengaGraphBuilderFolder;
/* folder.c. Collective: the text of FOLDER/config.json on all ranks, for RengaFree. */
RengaErrorCode RengaHfShareConfig(MPI_Comm comm, const char *folder, char **text);

const RengaHfFamily *RengaHfFindFamily(const char *type); /* families.c; NULL: it is not there */
const char *RengaHfListFamilies(size_t size, char text[]);
/* config.c: of the text of FOLDER/config.json. To be freed in any case. */
RengaErrorCode RengaHfReadConfig(const char *folder, const char *text, RengaHfModel *model);
void RengaHfFreeModel(RengaHfModel *model);
/* rope.c: the member rope_parameters or rope_scaling. */
RengaErrorCode RengaHfReadRope(const char *folder, const char *key, json_object *value,
                               RengaHfConfig *config);
/* Does it have all that its scaling needs? */
RengaErrorCode RengaHfCheckRope(const char *folder, const RengaHfRope *rope, int64_t width);
/* Cosines and sines [places, width], as the angles of float32 numbers have them. longest: of the
   sequences that the network was made for. */
void RengaHfFillAngles(const RengaHfRope *rope, int64_t longest, int64_t places, int64_t width,
                       float cosines[], float sines[]);
/* decoder.c, encoder.c, images.c */
RengaErrorCode RengaHfBuildDecoder(RengaGraph graph, const RengaHfModel *model,
                                   const RengaHfOptions *options);
RengaErrorCode RengaHfBuildImages(RengaGraph graph, const RengaHfModel *model,
                                  const RengaHfOptions *options);
RengaErrorCode RengaHfBuildModernEncoder(RengaGraph graph, const RengaHfModel *model,
                                         const RengaHfOptions *options); /* modern.c */
RengaErrorCode RengaHfBuildT5(RengaGraph graph, const RengaHfModel *model,
                              const RengaHfOptions *options); /* t5.c */
RengaErrorCode RengaHfBuildWhisper(RengaGraph graph, const RengaHfModel *model,
                                   const RengaHfOptions *options); /* whisper.c */
RengaErrorCode RengaHfBuildEncoder(RengaGraph graph, const RengaHfModel *model,
                                   const RengaHfOptions *options);
void RengaHfNarrowImages(RengaHfConfig *config, double share);
