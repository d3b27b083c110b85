/* System services: errors, memory, objects, options, logging, viewers, random numbers. */
#pragma once
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What C++ may call, and what the library exports: all that stands between these two. */
#if defined(__cplusplus)
#define RENGA_BEGIN_C extern "C" {
#define RENGA_END_C }
#else
#define RENGA_BEGIN_C
#define RENGA_END_C
#endif
#if defined(__GNUC__)
#define RENGA_BEGIN_DECLS RENGA_BEGIN_C _Pragma("GCC visibility push(default)")
#define RENGA_END_DECLS _Pragma("GCC visibility pop") RENGA_END_C
#else
#define RENGA_BEGIN_DECLS RENGA_BEGIN_C
#define RENGA_END_DECLS RENGA_END_C
#endif

RENGA_BEGIN_DECLS

/* The version of these headers, as numbers and as a text. */
#define RENGA_VERSION_MAJOR 0
#define RENGA_VERSION_MINOR 1
#define RENGA_VERSION_PATCH 0
#define RENGA_VERSION "0.1.0"
/* Is this Renga at least that one? #if RENGA_VERSION_GE(0, 2, 0) */
#define RENGA_VERSION_GE(major, minor, patch)                                                      \
  (RENGA_VERSION_MAJOR > (major) ||                                                                \
   (RENGA_VERSION_MAJOR == (major) &&                                                              \
    (RENGA_VERSION_MINOR > (minor) ||                                                              \
     (RENGA_VERSION_MINOR == (minor) && RENGA_VERSION_PATCH >= (patch)))))

/* ---- errors ---- */
/* The codes of errors, listed once: name of the constant, and what it says. */
#define RENGA_ERROR_MAP(X)                                                                         \
  X(MEMORY, "memory")                                                                              \
  X(SUPPORT, "not supported")                                                                      \
  X(ORDER, "call in the wrong state")                                                              \
  X(ARGUMENT, "bad argument")                                                                      \
  X(OPTION, "bad option")                                                                          \
  X(SHAPE, "shapes do not fit")                                                                    \
  X(GRAPH, "bad graph")                                                                            \
  X(FILE_OPEN, "cannot open file")                                                                 \
  X(FILE_FORMAT, "bad file")                                                                       \
  X(FILE_WRITE, "cannot write file")                                                               \
  X(PLAN, "plan does not fit")                                                                     \
  X(NUMERIC, "not a finite number")                                                                \
  X(TIMEOUT, "no progress")                                                                        \
  X(LIBRARY, "an outside library failed")                                                          \
  X(INTERNAL, "internal error")

#define RENGA_ERROR_ENUM(name, text) RENGA_ERR_##name,
/* What nearly every function returns: RENGA_SUCCESS, or RENGA_ERR_MEMORY and so on, one for each
   row of RENGA_ERROR_MAP. */
typedef enum {
  RENGA_SUCCESS = 0,
  RENGA_ERROR_MAP(RENGA_ERROR_ENUM) RENGA_ERR_COUNT
} RengaErrorCode;
#undef RENGA_ERROR_ENUM

const char *RengaErrorText(RengaErrorCode code);
RengaErrorCode RengaErrorRaise(MPI_Comm comm, RengaErrorCode code, const char *function,
                               const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* What a handler is told: an error where it is found (depth 0), each caller that passes it on
   (depth 1, 2 ...), or a warning (code RENGA_SUCCESS). Strings are lent until it returns. */
typedef struct {
  RengaErrorCode code;         /* RENGA_SUCCESS: a warning */
  int depth, rank;             /* in MPI_COMM_WORLD */
  const char *message;         /* the sentence, at every depth */
  const char *function, *file; /* where it was found or passed on */
  int line;                    /* in that file */
} RengaErrorReport;
/* A function of the program's own that is told of every error and warning. */
typedef void (*RengaErrorHandler)(const RengaErrorReport *report, void *user);
void RengaErrorSetHandler(RengaErrorHandler report, void *user); /* NULL: RengaErrorPrint */
void RengaErrorGetHandler(RengaErrorHandler *report, void **user);
void RengaErrorPrint(const RengaErrorReport *report, void *user);
void RengaErrorIgnore(const RengaErrorReport *report, void *user); /* prints warnings only */
const char *RengaErrorGetMessage(void);                            /* lent; the last error's */
void RengaErrorPass(const char *function, const char *file, int line);
RengaErrorCode RengaErrorMPI(int mpi_error, const char *call, const char *function,
                             const char *file, int line);
RengaErrorCode RengaErrorAgree(MPI_Comm comm, RengaErrorCode mine);
#ifdef __clang_analyzer__
/* The analyser sees one file at a time; here it sees that ranks agree on success only where this
   one had it. A macro, as it does not enter functions at any depth. */
#define RengaErrorAgree(comm, mine)                                                                \
  __extension__({                                                                                  \
    const RengaErrorCode renga_mine_ = (mine), renga_all_ = RengaErrorAgree(comm, renga_mine_);    \
    renga_mine_ == RENGA_SUCCESS ? renga_all_ : renga_mine_;                                       \
  })

#endif
void RengaWarning(MPI_Comm comm, const char *format, ...) __attribute__((format(printf, 2, 3)));
void RengaErrorAbort(RengaErrorCode code); /* end of main: MPI_Abort */

/* Return the code of a failed call, adding this function to the trace. */
#define RengaCall(expression)                                                                      \
  do {                                                                                             \
    RengaErrorCode renga_code_ = (expression);                                                     \
    if (renga_code_ != RENGA_SUCCESS) {                                                            \
      RengaErrorPass(__func__, __FILE__, __LINE__);                                                \
      return renga_code_;                                                                          \
    }                                                                                              \
  } while (0)

/* Fail with this code and sentence. comm says who prints: its rank 0.
   Use a larger communicator than MPI_COMM_SELF only where all its
   ranks surely fail together. */
#define RengaRaise(comm, code, ...)                                                                \
  return RengaErrorRaise(comm, code, __func__, __FILE__, __LINE__, __VA_ARGS__), (code)
/* Fail with this code and sentence unless the condition holds. */
#define RengaCheck(condition, comm, code, ...)                                                     \
  do {                                                                                             \
    if (!(condition)) RengaRaise(comm, code, __VA_ARGS__);                                         \
  } while (0)
/* Fail with RENGA_ERR_LIBRARY, and the words of MPI, where a call of MPI fails. */
#define RengaCallMPI(call)                                                                         \
  do {                                                                                             \
    int renga_mpi_ = (call);                                                                       \
    if (renga_mpi_ != MPI_SUCCESS)                                                                 \
      return RengaErrorMPI(renga_mpi_, #call, __func__, __FILE__, __LINE__), RENGA_ERR_LIBRARY;    \
  } while (0)
/* main(): print, then end every rank of the job with a non-zero exit code. */
#define RengaCallAbort(expression)                                                                 \
  do {                                                                                             \
    RengaErrorCode renga_code_ = (expression);                                                     \
    if (renga_code_ != RENGA_SUCCESS) {                                                            \
      RengaErrorPass(__func__, __FILE__, __LINE__);                                                \
      RengaErrorAbort(renga_code_);                                                                \
    }                                                                                              \
  } while (0)

/* ---- start and end ---- */
/* Before RengaInitialize: the processes that Renga runs on, where not MPI_COMM_WORLD. */
RengaErrorCode RengaSetWorld(MPI_Comm comm);
RengaErrorCode RengaInitialize(int *argc, char ***argv, const char help[]);
RengaErrorCode RengaFinalize(void);
void RengaSetExitCode(int code); /* of main, should MPI_Finalize hang */
int RengaGetExitCode(void);
void RengaGetVersion(int *major, int *minor, int *patch, const char **text);

/* ---- memory: zeroed, 64-byte aligned; what is not freed is an error of RengaFinalize ---- */
RengaErrorCode RengaMemoryAllocate(size_t count, size_t size, const char *function,
                                   const char *file, int line, void *pointer_to_pointer);
RengaErrorCode RengaMemoryGrow(size_t count, size_t size, const char *function, const char *file,
                               int line, void *pointer_to_pointer);
void RengaMemoryFree(void *pointer_to_pointer); /* sets the pointer to NULL; NULL is allowed */
void RengaMemoryGetUsage(size_t *bytes, size_t *peak_bytes, int64_t *blocks);
size_t RengaMemoryResident(void); /* resident bytes of this process; 0 where unknown */
/* Memory for so many elements of what *pointer points to, all bits zero. */
#define RengaMalloc(count, pointer)                                                                \
  RengaMemoryAllocate((size_t)(count), sizeof **(pointer), __func__, __FILE__, __LINE__, pointer)
/* The same memory for another number of elements; new ones are zero. */
#define RengaRealloc(count, pointer)                                                               \
  RengaMemoryGrow((size_t)(count), sizeof **(pointer), __func__, __FILE__, __LINE__, pointer)
/* Give memory back: takes the address of the pointer, which becomes NULL. */
#define RengaFree(pointer) RengaMemoryFree(pointer)
RengaErrorCode RengaStringCopy(const char *text, char **copy); /* RengaFree(&copy) */

/* ---- objects ---- */
/* What all objects begin with: communicator, name, prefix of options. */
typedef struct _p_RengaObject *RengaObject;
/* Processes that work together: Renga's own duplicate of a communicator, and what it knows. */
typedef struct _p_RengaComm *RengaComm;
/* How far an object is: it may still be changed, it is set up, it has its result. */
typedef enum { RENGA_STATE_NEW, RENGA_STATE_SETUP, RENGA_STATE_SOLVED } RengaState;
RengaErrorCode RengaObjectGetComm(void *object, MPI_Comm *comm);
RengaErrorCode RengaObjectSetName(void *object, const char *name);
RengaErrorCode RengaObjectSetOptionsPrefix(void *object, const char *prefix);

/* ---- options: rows of tables, all known after RengaInitialize ---- */
/* The type of an option's value, and of the member that it goes to. */
typedef enum {
  RENGA_OPTION_BOOL,   /* bool */
  RENGA_OPTION_INT,    /* int */
  RENGA_OPTION_INT64,  /* int64_t */
  RENGA_OPTION_REAL,   /* double */
  RENGA_OPTION_BYTES,  /* int64_t, from 8GiB, 512MB, 1024 */
  RENGA_OPTION_STRING, /* char *, owned; NULL where the default is NULL */
  RENGA_OPTION_SECRET, /* the same; no view, error or file shows the value */
  RENGA_OPTION_ENUM,   /* int or enum: which of the choices, of which the first is low */
} RengaOptionKind;
/* The offset of a row that the program reads with RengaOptionsGet... */
#define RENGA_OPTION_NO_OFFSET ((size_t)-1)
/* One option: its name, its type, its default, where its value goes, and its help. */
typedef struct {
  const char *name;     /* without the dash */
  RengaOptionKind kind; /* type of the value */
  const char *value;    /* default */
  size_t offset;        /* destination in the owner's struct */
  const char *choices;  /* "sgd|adam|adamw", or NULL */
  double low, high;     /* allowed range of numbers where low < high */
  const char *help;     /* one line, with the unit */
} RengaOptionRow;
RengaErrorCode RengaOptionsRegister(const char *section, int count, const RengaOptionRow rows[]);
RengaErrorCode RengaOptionsAddPrefix(const char *prefix);
/* What happens to words of the command line that look like options and are not Renga's. */
typedef enum { RENGA_UNKNOWN_IS_ERROR, RENGA_UNKNOWN_IS_LEFT } RengaUnknownOptions;
RengaErrorCode RengaOptionsSetUnknown(RengaUnknownOptions unknown); /* before RengaInitialize */
RengaErrorCode RengaOptionsGetUnknown(RengaUnknownOptions *unknown);
RengaErrorCode RengaOptionsSetDefaults(int count, const RengaOptionRow rows[], void *base);
RengaErrorCode RengaOptionsSetFromDatabase(const char *prefix, int count,
                                           const RengaOptionRow rows[], void *base);
RengaErrorCode RengaOptionsFreeStrings(int count, const RengaOptionRow rows[], void *base);
RengaErrorCode RengaOptionsGetString(const char *name, const char **value, bool *given); /* lent */
RengaErrorCode RengaOptionsGetInt64(const char *name, int64_t *value, bool *given);
RengaErrorCode RengaOptionsGetReal(const char *name, double *value, bool *given);
RengaErrorCode RengaOptionsGetBool(const char *name, bool *value, bool *given);
RengaErrorCode RengaOptionsSetValue(const char *name, const char *value);
RengaErrorCode RengaOptionsClearValue(const char *name); /* as if it had never been given */
/* Chooses an option for RengaOptionsHelp. */
typedef bool (*RengaOptionFilter)(const char *section, const char *name, void *user);
RengaErrorCode RengaOptionsHelp(FILE *file, RengaOptionFilter wants, void *user);
RengaErrorCode RengaOptionsWriteAll(FILE *file); /* all rows, as an options file of comments */
RengaErrorCode RengaAnswerHelp(bool *answered);  /* -help, -version: the program ends then */
RengaErrorCode RengaOptionsView(FILE *file);     /* what the user gave, as an options file */
RengaErrorCode RengaOptionsReadTable(MPI_Comm comm, const char *file, int count,
                                     const RengaOptionRow rows[], void *base);
RengaErrorCode RengaParseBytes(const char *text, int64_t *bytes);
const char *RengaClosestName(const char *name, int count, const char *const names[]);

/* ---- viewers ---- */
/* Where a text or picture goes: "kind:file", on rank 0 of the communicator. */
typedef struct _RengaViewer *RengaViewer;
RengaErrorCode RengaViewerCreate(RengaComm comm, const char *specification, RengaViewer *viewer);
RengaErrorCode RengaViewerPrintf(RengaViewer viewer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
RengaErrorCode RengaViewerCheckFile(const char *file); /* may it be written? */
const char *RengaViewerGetKind(RengaViewer viewer);    /* "ascii", "dot", "json", "draw" */
RengaErrorCode RengaViewerDestroy(RengaViewer *viewer);
void RengaPrintSetOptional(bool optional); /* may standard output lose text? */
RengaErrorCode RengaPrintGetLost(bool *lost);
RengaErrorCode RengaPrintFlush(void);
RengaErrorCode RengaPrintf(MPI_Comm comm, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* standard output of rank 0 of comm */
void RengaFormatBytes(double bytes, size_t size, char text[]);     /* "1.50 GiB" */
void RengaFormatCount(double count, size_t size, char text[]);     /* "123.9 M" */
void RengaFormatSeconds(double seconds, size_t size, char text[]); /* "34.8 ms" */

/* ---- random numbers: Philox 4x32-10; a number depends on what it is for, never on a rank ---- */
void RengaPhilox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
void RengaRandomUniform(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, float out[]);
void RengaRandomNormal(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, float out[]);
uint64_t RengaHash(const void *bytes, size_t count, uint64_t seed); /* XXH64 */

/* ---- log: events with count, time, flops, messages, bytes; a Chrome trace ---- */
/* The number of an event of the log. */
typedef int RengaLogEvent;
RengaErrorCode RengaLogEventRegister(const char *name, RengaLogEvent *event);
void RengaLogEventBegin(RengaLogEvent event);
void RengaLogEventEnd(RengaLogEvent event, double flops, int64_t messages, int64_t bytes);
void RengaLogTrace(const char *track, const char *name, double begin, double end); /* MPI_Wtime */
bool RengaLogTraceIsOn(void);
/* A function that hears of each bar of the trace when it ends; begin, end: of MPI_Wtime. */
typedef void (*RengaLogTraceListener)(void *user, const char *track, const char *name, double begin,
                                      double end);
RengaErrorCode RengaLogTraceSetListener(RengaLogTraceListener hear, void *user); /* NULL: no more */
RengaErrorCode RengaLogTraceFindZero(MPI_Comm comm, double *zero); /* of all ranks' clocks */
void RengaLogMemory(const char *category, int64_t forecast_bytes, int64_t measured_bytes);
RengaErrorCode RengaLogView(MPI_Comm comm, FILE *file);                  /* collective */
RengaErrorCode RengaLogTraceWrite(MPI_Comm comm, const char *file_name); /* collective */

RENGA_END_DECLS
