/* What the files of renga run know of each other: a process without MPI that starts a training by
   mpiexec or srun, looks on, and starts it again on the hosts that are left. */
#pragma once
#include "rengasys.h"
#include <signal.h>
#include <sys/types.h>

enum { SUPERVISOR_NAME = 256, SUPERVISOR_TEXT = 1024, SUPERVISOR_WORDS = 64 };

/* options.c: the command line. */
typedef struct {
  int64_t ranks, least, starts; /* ranks 0: those of all hosts */
  double stall, leave, probe, back;
  const char *hosts, *launcher, *remote, *events, *warning; /* NULL: not given */
  bool requeue;
  char **command; /* ends with NULL; lent by main */
  int n_words;    /* of it */
} SupervisorOptions;
/* help: it was asked for, and printed. */
RengaErrorCode SupervisorReadOptions(int argc, char **argv, SupervisorOptions *options, bool *help);

/* events.c: a sentence for people on the standard error, and a row of JSON in the file of -events.
   fields: of the row, as "\"step\":4"; or "". An empty sentence is for programs alone. */
RengaErrorCode SupervisorEventsOpen(const char *file);
__attribute__((format(printf, 3, 4))) void SupervisorSay(const char *event, const char *fields,
                                                         const char *format, ...);
size_t SupervisorQuote(const char *text, size_t size, char quoted[]); /* as a string of JSON */
double SupervisorSecondsSinceBegin(void);                             /* of renga run */
double SupervisorSeconds(void); /* of a clock that nobody sets */

/* signals.c: those that ask renga run itself. */
typedef struct {
  sigset_t others; /* what a wait may be interrupted by, and what children begin with */
} SupervisorSignals;
void SupervisorCatchSignals(SupervisorSignals *signals);
/* Waits so long, or until a signal comes or one of the files (-1: none) has something. */
void SupervisorPause(const SupervisorSignals *signals, double seconds, const int file[2]);
int SupervisorAsked(void); /* how often it was asked to leave, and by which signal last */
int SupervisorAskedBy(void);

/* ask.c: a text for the shell, on several hosts at once. */
typedef struct {
  pid_t process; /* 0: none, or it has ended */
  int output;    /* -1: it is at its end */
  bool answered; /* exit code 0 */
  size_t length;
  char text[4 * SUPERVISOR_TEXT]; /* what it said, as much as there is room for */
} SupervisorAnswer;
typedef struct {
  int count;
  SupervisorAnswer *answer; /* [count] as the hosts; NULL: nothing is asked */
  double until;
} SupervisorQuestion;
typedef struct {
  const char *remote[SUPERVISOR_WORDS]; /* what runs a text on a host whose name follows */
  bool shell;                           /* it runs words, not a text for a shell */
  char *text;                           /* whose words these are */
} SupervisorRemote;
struct _SupervisorHosts;
/* skip: hosts that are not asked. A host without a name is this machine. */
bool SupervisorAskBegin(const struct _SupervisorHosts *hosts, const bool skip[], const char *text,
                        double seconds, SupervisorQuestion *question);
bool SupervisorAskIsOver(SupervisorQuestion *question); /* all answered, or the time is up */
void SupervisorAskEnd(SupervisorQuestion *question);    /* who has not answered is ended */

/* hosts.c */
typedef struct {
  char name[SUPERVISOR_NAME]; /* "": this machine */
  int ranks, used;            /* how many may run there, and do */
  bool lost, warned;          /* it does not answer, or it was said that it goes */
  int strikes;                /* failures it was named for since the last new step */
  int losses;                 /* how often it was lost: the wait for its return doubles each time */
  double ask_at;              /* when it is asked again */
} SupervisorHost;
typedef struct _SupervisorHosts {
  int count;
  SupervisorHost *host;
  SupervisorRemote remote;
  bool listed; /* by a file, or by Slurm */
} SupervisorHosts;
RengaErrorCode SupervisorHostsRead(const SupervisorOptions *options, bool srun,
                                   SupervisorHosts *hosts);
bool SupervisorHostIsUsable(const SupervisorHost *host);
/* Ranks go to the hosts in order; as many as are wanted, or fewer. */
int SupervisorHostsDeal(SupervisorHosts *hosts, const SupervisorOptions *options);
int SupervisorHostOfRank(const SupervisorHosts *hosts, int rank);        /* -1: none */
int SupervisorHostNamed(const SupervisorHosts *hosts, const char *name); /* -1: none */
void SupervisorHostLose(SupervisorHosts *hosts, int h, const SupervisorOptions *options);
void SupervisorHostTakeBack(SupervisorHosts *hosts, int h);
/* The file of -warning: marks who goes. all: all of them do. */
bool SupervisorHostsWarn(SupervisorHosts *hosts, const char *file, bool *all);

/* sweep.c: processes of this run, known by a variable of their environment, on all hosts. */
/* Who answers; what is found out is said. Who was lost and is back is swept first. */
void SupervisorHostsProbe(SupervisorHosts *hosts, const SupervisorOptions *options,
                          const char *token);
void SupervisorSweep(SupervisorHosts *hosts, const SupervisorOptions *options, const char *token);
/* SIGTERM to the tasks of Slurm: srun, asked to end, kills them. */
void SupervisorAskRanks(const SupervisorHosts *hosts, const SupervisorOptions *options,
                        const char *token);
typedef struct {
  int rank, host;                 /* -1: none, or it is not known */
  char text[2 * SUPERVISOR_NAME]; /* "rank 1 (process 812 on node2) is stopped"; "": none is */
} SupervisorStopped;
SupervisorStopped SupervisorFindStopped(const SupervisorHosts *hosts,
                                        const SupervisorOptions *options, const char *token);

/* launch.c: the launcher's command line, and its process. */
typedef enum { SUPERVISOR_MPICH, SUPERVISOR_OPENMPI, SUPERVISOR_SRUN } SupervisorLauncherKind;
typedef struct {
  SupervisorLauncherKind kind;
  char *text;                         /* whose words these are */
  const char *word[SUPERVISOR_WORDS]; /* ends with NULL */
} SupervisorLauncher;
RengaErrorCode SupervisorLauncherFind(const SupervisorOptions *options,
                                      SupervisorLauncher *launcher);
typedef struct {
  pid_t process;
  int output[2]; /* what it says on standard output and error; -1: at its end */
} SupervisorLaunched;
/* Words of a text with blanks between them; false: too many. */
bool SupervisorSplit(char *text, int most, const char *word[]);
/* What a command says on its standard output, without its last line's end; false, and "", where it
   fails or takes longer. */
bool SupervisorRead(const char *const word[], double seconds, size_t size, char text[]);

/* signs.c: what the ranks and the launcher tell of one start. */
typedef struct {
  char file[SUPERVISOR_TEXT];
  long at;             /* how much of it was read */
  bool started, ended; /* the ranks met; the end was said, with this code: */
  int end_code;
  int64_t step, checkpoint; /* the newest; -1: none */
  int64_t resumed;          /* the step that it went on from; -1: none */
  double moved, longest;    /* when a row came last; between two of steps, the most seconds */
  int n_processes;
  int64_t *process;           /* [n_processes] of the ranks */
  int error_rank, error_code; /* of the first error that was printed; code 0: none was */
  char error[SUPERVISOR_TEXT];
  bool told;                             /* by the launcher: the first rank that ended badly */
  int told_rank, told_code, told_signal; /* -1: not known */
  long long told_process;
  char told_host[SUPERVISOR_NAME];
} SupervisorSigns;
RengaErrorCode SupervisorSignsOpen(const char *token, SupervisorSigns *signs);
void SupervisorSignsBegin(SupervisorSigns *signs); /* of another start */
void SupervisorSignsLook(SupervisorSigns *signs);
/* False: what ranks tell is lost, for the reason errno. */
bool SupervisorSignsTakeRows(const SupervisorSigns *signs);
void SupervisorSignsHear(SupervisorSigns *signs, const char *line); /* of the launcher's output */
void SupervisorSignsClose(SupervisorSigns *signs);

/* start.c: one start, from its launch to the last of its processes. */
typedef enum {
  SUPERVISOR_DONE,
  SUPERVISOR_LEFT,   /* with a checkpoint and steps to go: code is 75 or 85 */
  SUPERVISOR_FAILED, /* code: of an error, or of the launcher */
} SupervisorOutcome;
typedef enum {
  SUPERVISOR_NOBODY,
  SUPERVISOR_BY_SIGNAL,  /* renga run is asked to leave */
  SUPERVISOR_BY_WARNING, /* a host goes: on without it */
  SUPERVISOR_BY_RETURN   /* a host is back: on with it */
} SupervisorAsker;
typedef struct {
  const SupervisorOptions *options;
  SupervisorLauncher launcher;
  SupervisorHosts hosts;
  SupervisorSignals signals;
  SupervisorSigns signs;
  char token[24];
  int start, idle;          /* number of the start, from 1; starts since the last new step */
  int refused;              /* so many ranks are too few for the command; 0: not known */
  int64_t best, checkpoint; /* the newest step, and that of the newest checkpoint; -1: none */
  int64_t first;            /* what the first start of all went on from */
  bool alone;               /* there were no children before it had some */
} Supervisor;
typedef struct {
  SupervisorOutcome outcome;
  SupervisorAsker asked; /* by whom, if it was */
  int code;
  int rank, host;                    /* that are to blame; -1: it is not known */
  char reason[SUPERVISOR_TEXT + 64]; /* of a failure: a clause */
} SupervisorEnd;
/* launch.c: with the variables by which the ranks are known, and where they write their signs. */
RengaErrorCode SupervisorLaunch(const Supervisor *supervisor, int ranks,
                                SupervisorLaunched *launched);
RengaErrorCode SupervisorRunStart(Supervisor *supervisor, int ranks, SupervisorEnd *end);

/* slurm.c */
void SupervisorTellEndOfJob(void); /* SLURM_JOB_END_TIME, where Slurm did not set it */
void SupervisorRequeue(const Supervisor *supervisor, int code);
