/* Reading a checkpoint: rank 0 reads names and shapes, every rank its own tensors at their offsets,
   checking each as it comes. A damaged file is no error here: the caller may have an older one. */
#include "file.h"
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
  vsnprintf(differences->text + used, LONGEST, format, arguments);
  va_end(arguments);
}

const char *RengaCheckpointDifferencesMore(const RengaCheckpointDifferences *differences)
{
  return differences->count > DIFFERENCES_LISTED ? "\n    ..." : "";
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
      RengaCheckpointDifferencesAdd(differences, "%s %s of the network is not in the file",
                                    wanted->name, here);
    } else if (!RengaTensorSpecEqual(&wanted->spec, &file->entries[found].spec)) {
      RengaTensorSpecFormat(&file->entries[found].spec, sizeof there, there);
      RengaCheckpointDifferencesAdd(differences, "%s is %s in the network, %s in the file",
                                    wanted->name, here, there);
    }
  }
  for (int i = 0; i < file->n_entries && !subset; i++)
    if (RengaCheckpointTableFind(network, file->entries[i].name) < 0)
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

RengaErrorCode RengaCheckpointFileCompare(RengaComm comm, const char *path,
                                          const RengaCheckpointTable *table, int count,
                                          const RengaPersistent tensors[], bool subset)
{
  RengaCheckpointTable network = {0};
  const bool root = RengaCommGetRank(comm) == 0;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code = RengaCheckpointTableGather(comm, count, tensors, &network);
  if (!code && root) code = CompareTables(path, table, &network, subset);
  code = RengaErrorAgree(ranks, code);
  RengaCheckpointTableFree(&network);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The first damaged entry of this rank, INT_MAX where there is none. */
typedef struct {
  int entry, reason; /* reason: 0, the checksum differs; else errno */
} Damage;

static RengaErrorCode ReadEntry(RengaTransfer transfer, int file, const RengaCheckpointTable *table,
                                int i, void *data, Damage *damage)
{
  const RengaCheckpointEntry *entry = &table->entries[i];
  uint64_t hash;
  int reason;
  RengaCall(RengaTransferRead(transfer, file, entry->offset, entry->bytes, data, &hash, &reason));
  if (reason == 0 && hash == entry->hash) return RENGA_SUCCESS;
  if (i < damage->entry) *damage = (Damage){i, reason};
  return RENGA_SUCCESS;
}

/* This rank's tensors, or without any its share of all: every entry whose middle is in its part of
   the bytes. */
static RengaErrorCode ReadEntries(RengaComm comm, RengaTransfer transfer, int file,
                                  const RengaCheckpointTable *table, int count,
                                  const RengaPersistent tensors[], Damage *damage)
{
  for (int i = 0; i < count && damage->entry == INT_MAX; i++) {
    int entry = RengaCheckpointTableFind(table, tensors[i].name);
    RengaCall(ReadEntry(transfer, file, table, entry, tensors[i].data, damage));
  }
  if (tensors) return RENGA_SUCCESS;
  int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  for (int i = 0; i < table->n_entries && damage->entry == INT_MAX; i++) {
    double middle = (double)table->entries[i].offset + 0.5 * (double)table->entries[i].bytes;
    if ((int)(middle / (double)table->file_bytes * size) == rank)
      RengaCall(ReadEntry(transfer, file, table, i, NULL, damage));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadMine(RengaComm comm, RengaDevice device, const char *path,
                               const RengaCheckpointTable *table, int count,
                               const RengaPersistent tensors[], Damage *damage)
{
  RengaTransfer transfer = NULL;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  RengaCheck(file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", path, strerror(errno));
  RengaErrorCode code = RengaTransferCreate(device, &transfer);
  if (code == RENGA_SUCCESS)
    code = ReadEntries(comm, transfer, file, table, count, tensors, damage);
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
             damage.reason ? strerror(damage.reason) : "its checksum differs");
  return RENGA_SUCCESS;
}
