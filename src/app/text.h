/* Text of networks that score the next token, for renga generate and renga eval. */
#pragma once
#include "app.h"

/* forward.c: what is to be written of a network whose only output is its loss: the scores that a
   cross-entropy compares, a name lent by the graph. NULL: it has other outputs, or not one such. */
RengaErrorCode AppFindScores(RengaGraph graph, const char **scores);

/* ---- lines.c ---- */
/* A file of texts, which rank 0 reads for all: its lines, ended by zeros. */
typedef struct {
  char *bytes;
  int64_t count;
  const char **line; /* [count], in bytes */
} AppLines;
/* Collective. Empty lines at the end are left out; a file without lines is an error. */
RengaErrorCode AppReadLines(RengaComm comm, const char *file, AppLines *lines);
void AppFreeLines(AppLines *lines);
void AppJoinLines(AppLines *lines); /* to one, with blanks between them */
/* The one JSON value of a line, to be put; NULL: it is not one. */
struct json_object *AppParseLine(const char *line);

/* Collective: the tokens that targets begin with and that pad, as FOLDER/config.json says, or 0. */
RengaErrorCode AppReadStart(RengaComm comm, const char *folder, int64_t *start, int64_t *padding);

/* ---- textmodel.c ---- */
/* Tokens of a text, or of its begin. */
typedef struct {
  int64_t length;
  int64_t *token; /* [length] */
  int64_t source; /* so many of them are for the encoder; 0: the network has none, or reads data */
  int64_t sample; /* of the data set that the encoder reads */
  int64_t kept;   /* of these so many have their keys and values in the caches, */
  int64_t cache;  /* which are those of text cache - 1; 0: of none */
} AppTokens;

/* What stands beside the decoder of a network: its encoder, which reads prompts, or samples of a
   data set. With caches it is a network of its own, which is run once for each text. */
typedef struct {
  int source;       /* the input of prompts' tokens; -1: there is none */
  int64_t start;    /* the token that texts begin with */
  int64_t samples;  /* of the data set */
  RengaDataFields fields; /* of the data set; names are owned */
  RengaData data;   /* NULL: it reads prompts */
  int64_t places;   /* of its result */
  RengaGraph graph; /* of the network of its own; NULL: there is none */
  RengaDataFields inputs; /* of that */
  RengaPlan plan;
  RengaPipeline pipeline;
  const AppTokens *text; /* of the forward that runs */
  float *memory;         /* rank 0: what a forward gives */
} AppEncoder;

/* A network with an input [batch, sequence] of tokens and an output [batch, sequence, kinds] of
   scores of the next one; of an encoder and a decoder that is the decoder's, and what texts go on
   from is the input of the encoder. */
typedef struct {
  const char *command; /* for messages: "renga generate" */
  RengaComm comm;
  MPI_Comm printer;
  RengaGraph graph;
  RengaDataFields fields;
  RengaPlan plan;
  RengaPipeline pipeline;
  const char *output;            /* name of the scores */
  int field;                     /* the input that the tokens go to */
  AppEncoder *encoder;           /* NULL: the network has none */
  int64_t sequence, kinds;       /* tokens that the network sees; of tokens that it knows */
  bool numbers;                  /* tokens stand for no text: they are written as numbers */
  RengaVocabulary vocabulary;    /* NULL: tokens are bytes, or numbers */
  int64_t n_frame[2], *frame[2]; /* tokens before and behind a prompt that is a text */
  int64_t lowest, highest;       /* those that are written: [lowest, highest) */
  int64_t batch;                 /* texts of a forward at most */
  int64_t step;                  /* of the checkpoint; -1: none */
  float *scores;                 /* [batch, sequence, kinds] of the last forward, on rank 0 */
  AppTokens *const *given;       /* [batch] of the last forward */
  struct _AppTokenRows *rows;    /* of a network with caches; NULL: of whole sequences */
  char spelled[24];              /* of the last token that was spelled */
} AppTextModel;
/* Collective: network and vocabulary. numbers: tokens need stand for no text. */
RengaErrorCode AppTextModelOpen(RengaComm comm, const char *command, bool numbers,
                                AppTextModel *model);
/* Collective: with caches of keys and values for texts of so many tokens, if that is possible, and
   -generate_cache wants it; else it is said why not. */
RengaErrorCode AppTextModelCache(AppTextModel *model, int64_t texts, int64_t longest);
/* Collective: a plan for so many texts at once (or that of a file), and the parameters of a
   checkpoint or a folder; NULL: those of -initial, which is told. */
RengaErrorCode AppTextModelSetUp(AppTextModel *model, int64_t batch, const char *parameters);
/* Not collective. The tokens of a text, with room for so many more. */
RengaErrorCode AppTextModelEncode(const AppTextModel *model, const char *text, int64_t length,
                                  int64_t more, AppTokens *tokens);
/* Not collective. What a token stands for, lent until the next call; a number with a blank before
   it where tokens are numbers. */
RengaErrorCode AppTextModelSpell(AppTextModel *model, int64_t token, const char **text,
                                 int64_t *length);
/* Collective: scores of count texts, at most model->batch. Of whole sequences each is one
   micro-batch, so that its bits depend neither on the others nor on the layout; a text that is
   longer than the network's sequence loses its begin. With caches tokens are computed that these do
   not have yet, in micro-batches of always as many. */
RengaErrorCode AppTextModelForward(AppTextModel *model, int64_t count, AppTokens *const texts[]);
/* Its place in the caches is free for another text. */
void AppTextModelLeave(AppTextModel *model, AppTokens *text);
/* On rank 0, after a forward: of what follows token number place (from 0) of text number i; with
   caches the last token's alone. */
const float *AppTextModelScoresAt(const AppTextModel *model, int64_t i, int64_t place);
RengaErrorCode AppTextModelDestroy(AppTextModel *model);

/* ---- encoder.c ---- */
/* Not collective: tokens that the decoder reads, and which they are. */
int64_t AppTextPlaces(const AppTextModel *model, const AppTokens *text);
int64_t AppTextTokenAt(const AppTextModel *model, const AppTokens *text, int64_t place);
void AppPutToken(const RengaTensorSpec *spec, void *buffer, int64_t at, int64_t token);
/* Collective: of a network whose tokens go to the input target. -data is opened where it reads no
   tokens. */
RengaErrorCode AppEncoderOpen(AppTextModel *model, int target);
/* Not collective: what the encoder's input of a name has for a text, as sample number of a buffer
   of zeros. */
RengaErrorCode AppEncoderFill(const AppTextModel *model, const char *name,
                              const RengaTensorSpec *spec, const AppTokens *text, int64_t number,
                              void *buffer);
/* Collective: the encoder by itself, of which the decoder takes keys and values; its plan and its
   parameters; what it makes for a text, whose caches get it. */
RengaErrorCode AppEncoderCreate(AppTextModel *model, RengaGraph decoder, RengaGraph *graph);
RengaErrorCode AppEncoderSetUp(AppTextModel *model, const char *parameters);
RengaErrorCode AppEncoderRun(AppTextModel *model, const AppTokens *text);
RengaErrorCode AppEncoderDestroy(AppEncoder **encoder);
/* Does it read a data set in the place of prompts? */
bool AppReadsData(const AppTextModel *model);

/* ---- tokenrows.c: the network with caches ---- */
typedef struct _AppTokenRows AppTokenRows;
/* Collective: in the place of model->graph; why: it is not possible, and nothing has changed. */
RengaErrorCode AppTokenRowsCreate(AppTextModel *model, int64_t texts, size_t size, char why[]);
/* Rows of a batch, and of a micro-batch, which is all that a plan is made of. */
RengaErrorCode AppTokenRowsGetBatch(const AppTextModel *model, int64_t *batch, int64_t *microbatch);
RengaErrorCode AppTokenRowsForward(AppTextModel *model, int64_t count, AppTokens *const texts[]);
void AppTokenRowsLeave(AppTextModel *model, AppTokens *text);
void AppTokenRowsDestroy(AppTokenRows **rows);

/* ---- prompts.c ---- */
/* Where they stand. */
typedef struct {
  const char *text, *numbers, *file; /* -prompt, -prompt_tokens, -prompt_file */
  bool json;                         /* the file's lines are objects of JSON */
  bool given;                        /* one of the three is */
  AppLines lines;                    /* of the file; AppFreeLines */
} AppPromptSource;
typedef struct {
  int64_t count;
  char **text;       /* [count] as they were given; NULL: as numbers */
  AppTokens *tokens; /* [count], with room for what is written behind them */
} AppPrompts;
/* Collective, before the network is read. */
RengaErrorCode AppPromptsOpen(RengaComm comm, AppPromptSource *source);
/* Not collective. more: tokens that may be written behind each. */
RengaErrorCode AppPromptsTake(const AppTextModel *model, const AppPromptSource *source,
                              int64_t more, AppPrompts *prompts);
void AppPromptsFree(AppPrompts *prompts);
/* "1,2,3" */
RengaErrorCode AppTakeNumbers(const AppTextModel *model, const char *where, const char *text,
                              int64_t more, AppTokens *tokens);

/* ---- sampler.c ---- */
/* How a token is chosen among those that are scored. */
typedef struct {
  double temperature; /* 0: the likeliest */
  int64_t top_k;      /* of so many; 0: of all */
  double top_p;       /* of the fewest that have so much of the probability */
  uint64_t seed;
  int64_t lowest, highest; /* tokens [lowest, highest) */
  double *weight;          /* [highest] */
  struct _AppCandidate *candidate;
} AppSampler;
RengaErrorCode AppSamplerCreate(MPI_Comm printer, int64_t lowest, int64_t highest,
                                AppSampler *sampler);
/* Number number of the text that key stands for: the same whatever else is written. */
int64_t AppSamplerChoose(const AppSampler *sampler, const float scores[], uint64_t key,
                         int64_t number);
void AppSamplerDestroy(AppSampler *sampler);

/* ---- choices.c ---- */
/* What comes of questions with several answers. */
typedef struct {
  int64_t questions, step;       /* step: of the checkpoint; -1: none */
  double right, right_by_length; /* answers: by probability, and by that of a byte or token */
  double loss, tokens;           /* of the right answers: mean over their tokens */
} AppChoices;
/* Collective: -eval_choices. */
RengaErrorCode AppEvaluateChoices(RengaComm comm, const char *file, AppChoices *found);
