/* file:F: the lists of a text file, which any schedule can be saved to. A file says what one
   replica of each stage computes; messages, recomputation and sums come with that, and replicas
   with fewer micro-batches leave out what they have not. */
#include "pattern.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include "renga/private/output.h"
#include "renga/private/path.h"
#include "renga/private/schedule.h"
#include "renga/private/shared.h"
#include "rengacomm.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 256, MOST_NUMBER = 1 << 20 };

static const char *const words[RENGA_ACTION_KINDS] = {
    [RENGA_ACTION_FORWARD] = "forward",
    [RENGA_ACTION_BACKWARD] = "backward",
    [RENGA_ACTION_BACKWARD_INPUT] = "backward-input",
    [RENGA_ACTION_BACKWARD_WEIGHT] = "backward-weight",
};

typedef struct {
  const char *name, *at; /* at: what is left of its text */
  char *own;             /* the text, where it was read for this alone */
  int line;
  char text[LINE]; /* the line that was read last, without its end */
} ListFile;

typedef struct {
  int ranks, stages;
  int64_t microbatches;
  bool wave;
} ListHead;

/* The next line that is not a comment; false at the end. Of a line that is too long the rest is the
   next one. */
static bool NextListLine(ListFile *file)
{
  while (*file->at) {
    size_t length = strcspn(file->at, "\n");
    if (length > LINE - 1) length = LINE - 1;
    memcpy(file->text, file->at, length);
    file->text[length] = 0;
    file->at += length;
    if (*file->at == '\n') file->at++;
    file->line++;
    while (length > 0 && RengaIsSpace(file->text[length - 1])) file->text[--length] = 0;
    if (length > 0 && file->text[0] != '#') return true;
  }
  file->text[0] = 0;
  return false;
}

#define CheckLine(condition, file, ...)                                                            \
  do {                                                                                             \
    char why_[200];                                                                                \
    RengaTextFormat(why_, sizeof why_, __VA_ARGS__);                                               \
    RengaCheck(condition, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s:%d: \"%.80s\": %s",            \
               (file)->name, (file)->line, (file)->text, why_);                                    \
  } while (0)

static RengaErrorCode ReadListHead(ListFile *file, ListHead *head)
{
  long long ranks = 0, stages = 0, microbatches = 0;
  char lie[LINE];
  int used = 0;
  NextListLine(file);
  CheckLine(!strcmp(file->text, "renga-schedule 1"), file,
            "a schedule begins with the line \"renga-schedule 1\"");
  NextListLine(file);
  const int taken = sscanf(file->text, "ranks %lld stages %lld microbatches %lld %255s %n", &ranks,
                           &stages, &microbatches, lie, &used);
  CheckLine(taken == 4 && !file->text[used] && (!strcmp(lie, "round") || !strcmp(lie, "wave")),
            file, "expected: ranks P stages S microbatches M round, or wave in place of round");
  CheckLine(ranks >= 1 && ranks <= MOST_NUMBER && stages >= ranks && stages <= MOST_NUMBER &&
                stages % ranks == 0 && microbatches >= 1 && microbatches <= MOST_NUMBER,
            file, "%lld stages cannot be placed on %lld ranks for %lld micro-batches", stages,
            ranks, microbatches);
  head->ranks = (int)ranks;
  head->stages = (int)stages;
  head->microbatches = microbatches;
  head->wave = !strcmp(lie, "wave");
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseListRow(const ListFile *file, const ListHead *head, int at,
                                   RengaPatternRow *row)
{
  char word[LINE];
  long long stage = 0, turn = 0;
  int used = 0, kind = 0;
  const int taken = sscanf(file->text, "%255s %lld %lld %n", word, &stage, &turn, &used);
  while (kind < RENGA_ACTION_KINDS && (!words[kind] || strcmp(words[kind], word))) kind++;
  CheckLine(kind < RENGA_ACTION_KINDS, file,
            "%.40s is no action: write forward, backward, backward-input or backward-weight, then "
            "stage and micro-batch",
            word);
  CheckLine(taken == 3 && !file->text[used], file, "expected: %s STAGE MICROBATCH", words[kind]);
  CheckLine(stage >= 0 && stage < head->stages, file, "stage %lld of %d", stage, head->stages);
  row->stage = (int)stage;
  CheckLine(at >= 0, file, "an action comes before the first \"rank R\"");
  CheckLine(RengaScheduleFirstOf_Private(head->wave, head->ranks, row->stage) == at, file,
            "stage %d is rank %d's, not rank %d's", row->stage,
            RengaScheduleFirstOf_Private(head->wave, head->ranks, row->stage), at);
  CheckLine(turn >= 0 && turn < head->microbatches, file, "micro-batch %lld of %lld", turn,
            (long long)head->microbatches);
  row->kind = (RengaActionKind)kind;
  row->turn = turn;
  return RENGA_SUCCESS;
}

/* Each action comes once, and a backward is whole or two halves: lists have room for no more.
   kinds: [stages of the rank, micro-batches] one bit for each kind that has come. */
static RengaErrorCode CheckComesOnce(const ListFile *file, const ListHead *head,
                                     const RengaPatternRow *row, unsigned char kinds[])
{
  enum {
    WHOLE = 1 << RENGA_ACTION_BACKWARD,
    HALVES = 1 << RENGA_ACTION_BACKWARD_INPUT | 1 << RENGA_ACTION_BACKWARD_WEIGHT
  };
  const unsigned bit = 1u << row->kind;
  unsigned char *came = &kinds[row->stage / head->ranks * head->microbatches + row->turn];
  CheckLine(!(*came & bit), file, "%s of stage %d and micro-batch %lld is there a second time",
            words[row->kind], row->stage, (long long)row->turn);
  CheckLine(!(bit == WHOLE && *came & HALVES) && !(bit & HALVES && *came & WHOLE), file,
            "the backward of stage %d and micro-batch %lld is there whole, and in halves",
            row->stage, (long long)row->turn);
  *came |= (unsigned char)bit;
  return RENGA_SUCCESS;
}

/* What follows the head, up to the line "end"; kinds: as CheckComesOnce says. */
static RengaErrorCode ReadLists(ListFile *file, const ListHead *head, unsigned char kinds[],
                                RengaPattern *pattern)
{
  const size_t room = (size_t)(head->stages / head->ranks) * (size_t)head->microbatches;
  int at = -1;
  while (NextListLine(file)) {
    RengaPatternRow row;
    long long rank;
    int used = 0;
    if (!strcmp(file->text, "end")) {
      CheckLine(at == head->ranks - 1, file, "the lists of ranks %d to %d are missing", at + 1,
                head->ranks - 1);
      return RENGA_SUCCESS;
    }
    if (sscanf(file->text, "rank %lld %n", &rank, &used) == 1 && !file->text[used]) {
      CheckLine(rank == at + 1 && rank < head->ranks, file,
                "ranks come in their order: after %d of them rank %d, up to %d", at + 1, at + 1,
                head->ranks - 1);
      at = (int)rank;
      memset(kinds, 0, room);
      continue;
    }
    RengaCall(ParseListRow(file, head, at, &row));
    RengaCall(CheckComesOnce(file, head, &row, kinds));
    RengaCall(RengaPatternAdd_Private(pattern, at, row.kind, row.stage, row.turn));
  }
  CheckLine(false, file, "the file is cut off: its last line is \"end\"");
  return RENGA_SUCCESS;
}

static const char *NameOfLists(const char *type)
{
  return type + strlen(RENGA_SCHEDULE_FILE);
}

/* NULL: it cannot be read, or is a folder, a pipe or a device, which may have no end. */
static FILE *OpenRegular(const char *name)
{
  struct stat status;
  const int file = RengaFileDescriptor_Private(name, O_RDONLY, 0);
  FILE *stream = NULL;
  if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode)) stream = fdopen(file, "r");
  if (!stream && file >= 0) close(file);
  return stream;
}

static bool IsListFile(const char *type)
{
  return type && !strncmp(type, RENGA_SCHEDULE_FILE, strlen(RENGA_SCHEDULE_FILE));
}

/* The whole text, ended by a zero; the caller frees it. */
static RengaErrorCode ReadListText(const char *name, char **text)
{
  enum { STEP = 1 << 16 };
  FILE *stream = OpenRegular(name);
  size_t used = 0, got = 1;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheck(stream, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "cannot read the schedule %s: it is not there, or no regular file", name);
  while (!code && got > 0) {
    code = RengaRealloc((int64_t)used + STEP + 1, text);
    if (!code) used += got = fread(*text + used, 1, STEP, stream);
  }
  const bool whole = !ferror(stream);
  fclose(stream);
  if (code || !whole) RengaFree(text);
  RengaCall(code);
  RengaCheck(whole, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "cannot read the schedule %s", name);
  (*text)[used] = 0;
  return RENGA_SUCCESS;
}

/* As rank 0 has read it for all, where it has; else as it is now. */
static RengaErrorCode OpenLists(const char *type, ListFile *file)
{
  *file = (ListFile){.name = NameOfLists(type)};
  file->at = RengaSharedText_Private(file->name);
  if (file->at) return RENGA_SUCCESS;
  RengaCall(ReadListText(file->name, &file->own));
  file->at = file->own;
  return RENGA_SUCCESS;
}

/* The step has the stages of the file, as they lie there, and no more micro-batches. */
static RengaErrorCode CheckHead(RengaSchedule schedule, const ListFile *file, const ListHead *head)
{
  const int64_t turns = RengaScheduleMostTurns_Private(schedule);
  MPI_Comm comm = file->own ? MPI_COMM_SELF : schedule->hdr.comm; /* all say the same */
  int across;
  bool wave;
  RengaCall(RengaScheduleFindPlaces_Private(schedule, &across, &wave));
  RengaCheck(head->ranks == across && head->stages == schedule->stages, comm, RENGA_ERR_PLAN,
             "schedule %s is of %d stages on %d ranks, but here are %d stages on %d: give "
             "-layout_pipeline %d",
             file->name, head->stages, head->ranks, schedule->stages, across, head->ranks);
  RengaCheck(head->wave == wave || across == 1 || across == head->stages, comm, RENGA_ERR_PLAN,
             "schedule %s is of stages that lie as a %s, but here they lie as a %s", file->name,
             head->wave ? "wave" : "round", wave ? "wave" : "round");
  RengaCheck(turns <= head->microbatches, comm, RENGA_ERR_PLAN,
             "schedule %s is of %lld micro-batches, but a replica has %lld: give a larger "
             "-microbatch_size, or save it for as many",
             file->name, (long long)head->microbatches, (long long)turns);
  return RENGA_SUCCESS;
}

/* schedule NULL: for any. pattern: the caller frees it. */
static RengaErrorCode ReadPattern(RengaSchedule schedule, const char *type, RengaPattern **pattern)
{
  ListFile file;
  ListHead head = {0};
  unsigned char *kinds = NULL;
  RengaPattern *made = NULL;
  RengaCall(OpenLists(type, &file));
  RengaErrorCode code = ReadListHead(&file, &head);
  if (!code && schedule) code = CheckHead(schedule, &file, &head);
  if (!code) code = RengaPatternCreate_Private(head.ranks, head.microbatches, &made);
  if (!code) code = RengaMalloc(head.stages / head.ranks * head.microbatches, &kinds);
  if (!code) code = ReadLists(&file, &head, kinds, made);
  RengaFree(&kinds);
  RengaFree(&file.own);
  if (code) RengaPatternFree_Private(&made);
  RengaCall(code);
  *pattern = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawFile(RengaSchedule schedule, RengaPattern **pattern)
{
  RengaCall(ReadPattern(schedule, schedule->hdr.type_name, pattern));
  return RENGA_SUCCESS;
}

/* On rank 0: the text, with the number of its bytes, of a file that is a schedule's. */
static RengaErrorCode ReadForAll(const char *type, int64_t *size, char **text)
{
  RengaPattern *pattern = NULL;
  char *copy = NULL;
  RengaCall(ReadListText(NameOfLists(type), text));
  *size = (int64_t)strlen(*text) + 1;
  RengaErrorCode code = RengaStringCopy(*text, &copy);
  if (!code) code = RengaShareText_Private(NameOfLists(type), &copy);
  RengaFree(&copy);
  if (!code) code = ReadPattern(NULL, type, &pattern);
  if (pattern) RengaPatternFree_Private(&pattern);
  if (code) RengaFree(text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Do all ranks mean the same type? If not, who compares their settings says so. */
static RengaErrorCode HaveOneType(RengaComm comm, const char *type, bool *one)
{
  const uint64_t own = type ? RengaHash(type, strlen(type), 1) : 0;
  const int size = RengaCommGetSize(comm);
  uint64_t *all = NULL;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code = RengaErrorAgree(ranks, RengaMalloc(size, &all));
  if (!code)
    code = RengaCommGather(comm, &own, sizeof own, all, -1, "all ranks to name their schedule");
  *one = true;
  for (int r = 0; r < size && !code; r++) *one = *one && all[r] == own;
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShareOneFile(RengaComm comm, const char *type)
{
  static const char what[] = "the file of the schedule, which rank 0 reads";
  const bool root = RengaCommGetRank(comm) == 0;
  int64_t size = 0;
  char *text = NULL;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code =
      RengaErrorAgree(ranks, root ? ReadForAll(type, &size, &text) : RENGA_SUCCESS);
  if (!code) code = RengaCommBroadcast(comm, &size, sizeof size, 0, what);
  if (!code) code = RengaErrorAgree(ranks, root ? RENGA_SUCCESS : RengaMalloc(size, &text));
  if (!code) code = RengaCommBroadcast(comm, text, (size_t)size, 0, what);
  if (!code)
    code = RengaErrorAgree(ranks,
                           root ? RENGA_SUCCESS : RengaShareText_Private(NameOfLists(type), &text));
  RengaFree(&text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleShareLists - read the file of a schedule once for all ranks

   Collective

   Input:
   . comm - its rank 0 reads
   . type - a type that RengaScheduleSetType() takes; nothing is done for NULL, for others than
     file:, and where ranks name different ones

   Errors: RENGA_ERR_FILE_OPEN where rank 0 cannot read the file; RENGA_ERR_FILE_FORMAT for a line
   that is wrong, with its number.

   Notes: schedules of that type have the lists of this text from now on, also where the file is
   changed, until it is shared once more. RengaScheduleSetFromOptions(), RengaPartitionSolve() and
   RengaPipelineSetUp() do it. Other schedules read the file, each rank by itself.

   See also: RengaScheduleSetType(), RengaScheduleSave()
@*/
RengaErrorCode RengaScheduleShareLists(RengaComm comm, const char *type)
{
  bool one;
  RengaCheckPointer(comm);
  RengaCall(HaveOneType(comm, type, &one));
  if (one && IsListFile(type) && *NameOfLists(type)) RengaCall(ShareOneFile(comm, type));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_File(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] =
      (struct _RengaScheduleOps){.build = RengaScheduleFillPattern_Private, .draw = DrawFile};
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleFilePlaces_Private(const char *type, int *chunks, bool *wave)
{
  ListFile file;
  ListHead head = {0};
  RengaCall(OpenLists(type, &file));
  const RengaErrorCode code = ReadListHead(&file, &head);
  RengaFree(&file.own);
  RengaCall(code);
  *chunks = head.stages / head.ranks;
  *wave = head.wave;
  return RENGA_SUCCESS;
}

static uint64_t HashListFile(const char *name, uint64_t hash)
{
  char text[4096];
  size_t got;
  FILE *file = OpenRegular(name);
  if (!file) return hash; /* whoever needs the lists says so */
  while ((got = fread(text, 1, sizeof text, file)) > 0) hash = RengaHash(text, got, hash);
  fclose(file);
  return hash;
}

void RengaScheduleHashLists_Private(const char *type, uint64_t *hash)
{
  if (!IsListFile(type)) return;
  const char *text = RengaSharedText_Private(NameOfLists(type));
  *hash = text ? RengaHash(text, strlen(text), *hash) : HashListFile(NameOfLists(type), *hash);
}

/* The rank's list, of the replica that has most micro-batches. */
static void WriteList(RengaSchedule schedule, const RengaActionList list, FILE *stream)
{
  fprintf(stream, "rank %d\n", list->chunk->stage);
  for (int64_t i = 0; i < list->n_actions; i++) {
    const RengaAction *action = &list->action[i];
    if (action->microbatch < 0 || !words[action->kind]) continue;
    const int64_t turn =
        RengaScheduleSharing_Private(schedule, action->stage)->turn[action->microbatch];
    fprintf(stream, "%s %d %lld\n", words[action->kind], action->stage, (long long)turn);
  }
}

static RengaErrorCode WriteLists(RengaSchedule schedule, int across, bool wave, const char *name)
{
  RengaOutput output;
  const int64_t turns = RengaScheduleMostTurns_Private(schedule);
  int replica = 0;
  while (RengaScheduleChunk_Private(schedule, 0, replica)->count < turns) replica++;
  RengaCall(RengaPathCheckOutput_Private(name));
  RengaCall(RengaOutputOpen_Private(name, &output));
  fprintf(output.stream, "renga-schedule 1\n# %s\nranks %d stages %d microbatches %lld %s\n",
          schedule->hdr.type_name, across, schedule->stages, (long long)turns,
          wave ? "wave" : "round");
  for (int s = 0; s < across; s++)
    WriteList(schedule, &schedule->list[RengaScheduleChunk_Private(schedule, s, replica)->rank],
              output.stream);
  fprintf(output.stream, "end\n");
  RengaCall(RengaOutputClose_Private(&output, RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSave - write the lists of a schedule to a text file, to be edited and run

   Input:
   . schedule - the schedule, set up, of training
   . file - its name

   Errors: RENGA_ERR_ORDER before RengaScheduleSetUp(); RENGA_ERR_SUPPORT for forwards only, or no
   micro-batch; RENGA_ERR_PLAN where stages have other numbers of replicas;
   RENGA_ERR_FILE_WRITE where the file cannot be written.

   Notes: type "file:FILE" reads it. The file has what ranks compute; messages are put around that,
   and sums of gradients behind the last of a stage, as types that are built in do.

   See also: RengaScheduleSetType(), RengaScheduleView()
@*/
RengaErrorCode RengaScheduleSave(RengaSchedule schedule, const char *file)
{
  int across;
  bool wave;
  RengaCheckPointers(schedule, file);
  RengaCheckState(schedule, RENGA_STATE_SETUP, "RengaScheduleSetUp");
  RengaCheck(!schedule->forward_only && schedule->microbatches > 0, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT,
             "a schedule is saved where it trains micro-batches: here are %lld%s",
             (long long)schedule->microbatches, schedule->forward_only ? ", forward only" : "");
  RengaCall(RengaScheduleFindPlaces_Private(schedule, &across, &wave));
  RengaCall(WriteLists(schedule, across, wave, file));
  return RENGA_SUCCESS;
}
