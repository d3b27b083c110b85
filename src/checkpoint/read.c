/* Reading a checkpoint: rank 0 reads names and shapes, every rank the blocks that hold parts of its
   tensors, checking each block as it comes. A damaged file is no error here: the caller may have an
   older one. */
#include "file.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

RengaErrorCode RengaCheckpointFileOpen(RengaComm comm, const char *path,
                                       RengaCheckpointTable *table, bool *whole,
                                       char message[RENGA_CHECKPOINT_MESSAGE])
{
  static const char what[] = "whether a checkpoint is whole";
  RengaErrorCode code = RENGA_SUCCESS;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCheckpointHead head = {.run = 0};
  memset(message, 0, RENGA_CHECKPOINT_MESSAGE);
  if (RengaCommGetRank(comm) == 0) {
    code = RengaCheckpointHeadCheck(path, &head, message);
    if (!code && !message[0]) code = RengaCheckpointLayoutRead(path, table, message);
  }
  table->file_bytes = head.file_bytes;
  table->time = head.time;
  table->run = head.run;
  RengaCall(RengaErrorAgree(ranks, code));
  RengaCall(RengaCommBroadcast(comm, message, RENGA_CHECKPOINT_MESSAGE, 0, what));
  *whole = message[0] == '\0';
  if (*whole)
    RengaCall(RengaCheckpointTableBroadcast(comm, table));
  else
    RengaCheckpointTableFree(table);
  return RENGA_SUCCESS;
}

enum { DIFFERENCES_LISTED = 8 };

void RengaCheckpointDifferencesAdd(RengaCheckpointDifferences *differences, const char *format, ...)
{
  enum { LONGEST = 200 };
  if (++differences->count > DIFFERENCES_LISTED) return;
  size_t used = strlen(differences->text);
  used += (size_t)snprintf(differences->text + used, 8, "\n    ");
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(differences->text + used, LONGEST, format, arguments);
  va_end(arguments);
}

const char *RengaCheckpointDifferencesMore(const RengaCheckpointDifferences *differences)
{
  return differences->count > DIFFERENCES_LISTED ? "\n    ..." : "";
}

/* "NAME:first_moment" of a table that has NAME: where ":first_moment" begins; else NULL. */
static const char *MomentOf(const RengaCheckpointTable *table, const char *name)
{
  const int found = RengaCheckpointTableFind(table, name);
  bool moment = false;
  if (found < 0 || RengaCheckpointTableIsMoment(table, found, &moment) || !moment) return NULL;
  return strrchr(name, ':');
}

/* Moments of a parameter follow each other in a sorted table. */
static bool HasMoments(const RengaCheckpointTable *table, const char *parameter, size_t length)
{
  int low = 0, high = table->n_entries;
  while (low < high) { /* the first name that is not before "PARAMETER:" */
    const int middle = low + (high - low) / 2,
              order = strncmp(table->entries[middle].name, parameter, length + 1);
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < table->n_entries; low++) {
    const char *name = table->entries[low].name, *colon = MomentOf(table, name);
    if (strncmp(name, parameter, length + 1) != 0) return false;
    if (colon == name + length) return true;
  }
  return false;
}

/* As ":first_moment": of some parameter. */
static bool HasMomentNamed(const RengaCheckpointTable *table, const char *moment)
{
  for (int i = 0; i < table->n_entries; i++) {
    const char *colon = strrchr(table->entries[i].name, ':');
    if (colon && strcmp(colon, moment) == 0 && MomentOf(table, table->entries[i].name)) return true;
  }
  return false;
}

/* What is missing in the other table is a moment of a parameter that is frozen there: it has the
   parameter, without moments, and such moments of others. */
static bool IsFrozenIn(const RengaCheckpointTable *other, const RengaCheckpointTable *table,
                       const char *name)
{
  const char *moment = MomentOf(table, name);
  char *parameter = NULL;
  if (!moment || RengaStringCopy(name, &parameter)) return false;
  parameter[moment - name] = '\0';
  bool frozen = RengaCheckpointTableFind(other, parameter) >= 0;
  parameter[moment - name] = ':';
  frozen = frozen && !HasMoments(other, parameter, (size_t)(moment - name)) &&
           HasMomentNamed(other, moment);
  RengaFree(&parameter);
  return frozen;
}

bool RengaCheckpointSpecFits(const RengaTensorSpec *network, const RengaTensorSpec *file)
{
  RengaTensorSpec shape = *file;
  const bool converts = file->type != RENGA_FLOAT64 && network->type != RENGA_FLOAT64 &&
                        RengaDataTypeIsFloating(file->type) &&
                        RengaDataTypeIsFloating(network->type);
  if (converts) shape.type = network->type;
  return RengaTensorSpecEqual(network, &shape);
}

static void FindDifferences(const RengaCheckpointTable *file, const RengaCheckpointTable *network,
                            bool subset, RengaCheckpointDifferences *differences)
{
  for (int i = 0; i < network->n_entries; i++) {
    const RengaCheckpointEntry *wanted = &network->entries[i];
    int found = RengaCheckpointTableFind(file, wanted->name);
    char here[128], there[128];
    RengaTensorSpecFormat(&wanted->spec, sizeof here, here);
    if (found < 0) {
      if (!IsFrozenIn(file, network, wanted->name))
        RengaCheckpointDifferencesAdd(differences, "%s %s of the network is not in the file",
                                      wanted->name, here);
    } else if (!RengaCheckpointSpecFits(&wanted->spec, &file->entries[found].spec)) {
      RengaTensorSpecFormat(&file->entries[found].spec, sizeof there, there);
      RengaCheckpointDifferencesAdd(differences, "%s is %s in the network, %s in the file",
                                    wanted->name, here, there);
    }
  }
  for (int i = 0; i < file->n_entries && !subset; i++)
    if (RengaCheckpointTableFind(network, file->entries[i].name) < 0 &&
        !RengaCheckpointIsExtra_Private(file->entries[i].name) &&
        !IsFrozenIn(network, file, file->entries[i].name))
      RengaCheckpointDifferencesAdd(differences, "%s of the file is not in the network",
                                    file->entries[i].name);
}

static RengaErrorCode CompareTables(const char *path, const RengaCheckpointTable *file,
                                    RengaCheckpointTable *network, bool subset)
{
  RengaCheckpointDifferences differences = {"", 0};
  RengaCheckpointTableSort(network);
  FindDifferences(file, network, subset, &differences);
  RengaCheck(differences.count == 0, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "%s holds another network or optimizer, %d differences:%s%s", path, differences.count,
             differences.text, RengaCheckpointDifferencesMore(&differences));
  return RENGA_SUCCESS;
}

/* Rank 0. */
static RengaErrorCode CompareHoldings(const char *path, const RengaCheckpointTable *table,
                                      const RengaHoldings *holdings, bool subset)
{
  RengaCheckpointTable network = {0};
  RengaErrorCode code = RengaCheckpointTableAddHoldings(&network, holdings);
  if (!code) code = CompareTables(path, table, &network, subset);
  RengaCheckpointTableFree(&network);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointFileCompare(RengaComm comm, const char *path,
                                          const RengaCheckpointTable *table, int count,
                                          const RengaPersistent tensors[], bool subset)
{
  RengaHoldings holdings;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaHoldingsCreate(comm, count, tensors, NULL, &holdings));
  if (RengaCommGetRank(comm) == 0) code = CompareHoldings(path, table, &holdings, subset);
  code = RengaErrorAgree(holdings.ranks, code);
  RengaHoldingsFree(&holdings);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The first damaged entry of this rank, INT_MAX where there is none. */
typedef struct {
  int entry, reason; /* reason: 0, the checksum differs; else errno */
} Damage;

/* One block of an entry; persistent NULL: only its checksum. */
static RengaErrorCode ReadBlockOf(RengaTransfer transfer, int file,
                                  const RengaCheckpointTable *table, int i, int64_t block,
                                  const RengaPersistent *persistent, Damage *damage)
{
  const RengaCheckpointEntry *entry = &table->entries[i];
  int64_t first, bytes;
  uint64_t hash;
  int reason;
  RengaCheckpointTableBlock(table, i, block, &first, &bytes);
  const RengaTransferSource source = {file, entry->offset, entry->spec.type};
  RengaCall(RengaTransferRead(transfer, &source, first, bytes, persistent, &hash, &reason));
  if (reason == 0 && hash == table->hashes[entry->first_hash + block]) return RENGA_SUCCESS;
  if (i < damage->entry) *damage = (Damage){i, reason};
  return RENGA_SUCCESS;
}

/* Has this rank elements of the block? An empty tensor's checksum is looked at too. */
static bool NeedsBlock(const RengaCheckpointTable *table, int i, int64_t block,
                       const RengaPersistent *persistent)
{
  const int64_t size = (int64_t)RengaDataTypeSize(table->entries[i].spec.type);
  const RengaRuns runs = RengaRunsOf(&persistent->spec, &persistent->part);
  int64_t first, bytes;
  RengaCheckpointTableBlock(table, i, block, &first, &bytes);
  return bytes == 0 ||
         RengaRunsBefore(&runs, (first + bytes) / size) > RengaRunsBefore(&runs, first / size);
}

/* This rank's tensors. */
static RengaErrorCode ReadOwnParts(RengaTransfer transfer, int file,
                                   const RengaCheckpointTable *table, int count,
                                   const RengaPersistent tensors[], Damage *damage)
{
  for (int t = 0; t < count; t++) {
    const int i = RengaCheckpointTableFind(table, tensors[t].name);
    if (i < 0) RengaCall(RengaTransferClear(transfer, &tensors[t])); /* it was frozen */
    const int64_t blocks = i < 0 ? 0 : RengaCheckpointTableBlocks(table, i);
    for (int64_t b = 0; b < blocks && damage->entry == INT_MAX; b++)
      if (NeedsBlock(table, i, b, &tensors[t]))
        RengaCall(ReadBlockOf(transfer, file, table, i, b, &tensors[t], damage));
  }
  return RENGA_SUCCESS;
}

/* This rank's share of all: every block whose middle is in its part of the bytes. */
static RengaErrorCode ReadShare(RengaComm comm, RengaTransfer transfer, int file,
                                const RengaCheckpointTable *table, Damage *damage)
{
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  for (int i = 0; i < table->n_entries; i++) {
    const int64_t blocks = RengaCheckpointTableBlocks(table, i);
    for (int64_t b = 0; b < blocks && damage->entry == INT_MAX; b++) {
      int64_t first, bytes;
      RengaCheckpointTableBlock(table, i, b, &first, &bytes);
      const double middle = (double)(table->entries[i].offset + first) + 0.5 * (double)bytes;
      if ((int)(middle / (double)table->file_bytes * size) == rank)
        RengaCall(ReadBlockOf(transfer, file, table, i, b, NULL, damage));
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadMine(RengaComm comm, RengaDevice device, const char *path,
                               const RengaCheckpointTable *table, int count,
                               const RengaPersistent tensors[], Damage *damage)
{
  RengaTransfer transfer = NULL;
  int file = RengaFileDescriptor_Private(path, O_RDONLY, 0);
  RengaCheck(file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", path,
             RengaFileReason_Private(errno));
  RengaErrorCode code = RengaTransferCreate(device, &transfer);
  if (!code)
    code = tensors ? ReadOwnParts(transfer, file, table, count, tensors, damage)
                   : ReadShare(comm, transfer, file, table, damage);
  RengaTransferDestroy(&transfer);
  close(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The damage with the smallest entry, on all ranks. */
static RengaErrorCode ShareDamage(MPI_Comm ranks, Damage *damage)
{
  int64_t least = (int64_t)damage->entry << 32 | damage->reason;
  RengaCall(RengaReduceInt64_Private(ranks, MPI_MIN, &least, "all ranks to name damaged tensors"));
  *damage = (Damage){(int)(least >> 32), (int)(least & INT32_MAX)};
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointFileRead(RengaComm comm, RengaDevice device, const char *path,
                                       const RengaCheckpointTable *table, int count,
                                       const RengaPersistent tensors[], bool *whole,
                                       char message[RENGA_CHECKPOINT_MESSAGE])
{
  Damage damage = {INT_MAX, 0};
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code = ReadMine(comm, device, path, table, count, tensors, &damage);
  RengaCall(RengaErrorAgree(ranks, code));
  RengaCall(ShareDamage(ranks, &damage));
  *whole = damage.entry == INT_MAX;
  if (!*whole)
    snprintf(message, RENGA_CHECKPOINT_MESSAGE, "tensor %.500s: %s",
             table->entries[damage.entry].name,
             damage.reason ? RengaFileReason_Private(damage.reason) : "its checksum differs");
  return RENGA_SUCCESS;
}
