/* What the files of src/sys know of each other. */
#pragma once
#include "rengasys.h"

/* start.c: do all processes of MPI come here within the time? */
bool RengaSysMeet(double seconds);
MPI_Comm RengaSysWorld(void); /* of RengaSetWorld */
MPI_Comm RengaSysComm(void);  /* private duplicate of the processes that called RengaInitialize */
int RengaSysRank(void);       /* in MPI_COMM_WORLD; 0 without MPI */

/* launch.c: an error where a launcher started several processes that do not know of each other. */
RengaErrorCode RengaLaunchCheckAlone_Private(void);
bool RengaLaunchHasSeveral_Private(void);
/* Collective: an error where ranks have several versions; warnings of nodes that do not fit. */
RengaErrorCode RengaLaunchCheckVersions_Private(MPI_Comm comm);
RengaErrorCode RengaLaunchCheckNodes_Private(MPI_Comm comm);

/* signs.c: what the ranks tell who supervises the run, beside renga/private/signs.h. */
/* Of all ranks; written by rank 0 of MPI_COMM_WORLD, as the next. */
void RengaSignStart(int rank, int count, int64_t (*process)(int rank));
void RengaSignEnd(int exit_code);
void RengaSignError(int rank, RengaErrorCode code, const char *sentence); /* on any rank */

/* error.c */
bool RengaSysHasMPI(void);                   /* MPI was started, and has not ended */
void RengaErrorSilence(RengaErrorCode code); /* the error at hand is reported by another rank */
void RengaErrorLeave(void);                  /* and this rank has found it, too */
void RengaErrorShowTrace(bool show);         /* -error_trace */

/* guard.c */
RengaErrorCode RengaGuardMeet(MPI_Comm comm); /* collective: where all ranks run */
void RengaGuardForget(void);
void RengaGuardAllow(bool allowed); /* Renga starts MPI: it may end a process that hangs in it */
void RengaEndBy(unsigned seconds, int exit_code); /* the process ends then, wherever it is */

/* MPI_Finalize; where it hangs, as MPICH's over TCP sometimes does, the process ends after a few
   seconds with the exit code. All ranks have agreed before that all is well. */
void RengaFinalizeMPI(int exit_code);

/* memory.c */
void RengaMemoryKeep(bool keep); /* what is freed from now on stays: MPI may still write to it */
RengaErrorCode RengaMemoryFinish(void); /* an error that lists what was not freed */

/* options: the database */
#define RENGA_OPTIONS_FILE_DEPTH 8 /* options files that name options files */
typedef struct {
  char *name, *value;
  char *given_as; /* the name that was written */
  int source;     /* words of one source have one number */
} RengaOptionValue;
typedef struct {
  const char *section;
  int count;
  const RengaOptionRow *rows;
} RengaOptionSection;
/* The option that a name means, and its whole name, with a prefix that the name has. Where a name
   has two meanings, the text decides, if it is not NULL. NULL: unknown. */
enum { RENGA_OPTION_NAME = 256 };
const RengaOptionRow *RengaOptionsFindRow(const char *name, const char *text,
                                          char whole[RENGA_OPTION_NAME]);
const char *RengaOptionsFindValue(const char *prefix, const char *name); /* NULL: not given */
const RengaOptionValue *RengaOptionsFindGiven(const char *name);         /* by its whole name */
/* Into the owner's struct; text NULL: zero. */
RengaErrorCode RengaOptionsPlace(const RengaOptionRow *row, const char *text, void *base);
RengaErrorCode RengaOptionsStore(const char *name, const char *value, const char *given_as,
                                 int source);
void RengaOptionsSetTeller(MPI_Comm comm); /* its rank 0 tells */
void RengaOptionsTell(void);               /* a line of the old names that were met */
int RengaOptionsGetValues(const RengaOptionValue **values);
int RengaOptionsGetSections(const RengaOptionSection **sections);
const char *RengaOptionsGetClosest(const char *name);
/* Around RengaInitialize: after one that failed, values and tables are as before. */
RengaErrorCode RengaOptionsBegin(void);
void RengaOptionsEnd(bool good); /* good: from now on values are checked when they are set */
void RengaOptionsFinish(void);

/* optionname.c: the table of other names */
typedef struct {
  const char *name, *option;
  bool old; /* of the version before */
} RengaOptionName;
enum { RENGA_OPTION_NAMES = 32 };
/* The next row of a name, or of any where it is NULL. */
const RengaOptionName *RengaOptionNextName(const char *name, const RengaOptionName *after);
int RengaOptionNameNumber(const RengaOptionName *row);
void RengaOptionsTellOld(MPI_Comm comm, bool met[RENGA_OPTION_NAMES]);

/* optionvalue.c: text to value; false and a sentence where it is none */
#define RENGA_OPTION_MESSAGE 512
bool RengaOptionParse(const RengaOptionRow *row, const char *text, void *destination,
                      char message[RENGA_OPTION_MESSAGE]);
/* The first word of the choice that a text names by another of its words; false: it does not. */
bool RengaOptionNormalize(const RengaOptionRow *row, const char *text, char word[64]);
bool RengaOptionSame(const RengaOptionRow *row, const char *a, const char *b); /* one value? */
bool RengaOptionHasRange(const RengaOptionRow *row);
bool RengaOptionIsBool(const char *text);
bool RengaOptionIsText(RengaOptionKind kind);   /* a string, secret or not */
bool RengaOptionIsNumber(RengaOptionKind kind); /* of which a row may say the range */
size_t RengaOptionSize(RengaOptionKind kind);

/* type.c: may the option choose this registered type? All of them, as "|name". */
bool RengaTypeIsChoice(const char *option, const char *name);
void RengaTypePrintChoices(FILE *file, const char *option);
void RengaTypeFormatChoices(const char *option, size_t size, char text[]); /* behind the text */

/* optionparse.c */
RengaErrorCode RengaOptionsParse(MPI_Comm comm, int *argc, char ***argv, char **problems);

/* sharedtext.c */
void RengaSharedTextsFinish(void);

/* log.c and trace.c */
typedef struct {
  char name[40];
  int64_t count, messages, bytes;
  double seconds, flops;
} RengaLogRecord;
typedef struct {
  char name[40];
  int64_t forecast, measured;
} RengaLogMemoryRecord;
int RengaLogGetRecords(const RengaLogRecord **records);
int RengaLogGetMemory(const RengaLogMemoryRecord **records);
double RengaLogGetStart(void);
RengaErrorCode RengaLogStart(MPI_Comm comm, bool view, bool trace);
void RengaLogFinish(void);
RengaErrorCode RengaLogTraceStart(MPI_Comm comm);
void RengaLogTraceFinish(void);
