/* The table of a checkpoint: names and shapes on their way between ranks and file. */
#include "file.h"
#include <stdlib.h>
#include <string.h>

RengaErrorCode RengaCheckpointTableAdd(RengaCheckpointTable *table, const char *name,
                                       const RengaTensorSpec *spec, bool state)
{
  if ((table->n_entries & (table->n_entries - 1)) == 0)
    RengaCall(RengaRealloc(table->n_entries ? 2 * table->n_entries : 1, &table->entries));
  RengaCheckpointEntry *entry = &table->entries[table->n_entries];
  RengaCall(RengaStringCopy(name, &entry->name));
  entry->spec = *spec;
  entry->bytes = (int64_t)RengaTensorSpecBytes(spec);
  entry->state = state;
  entry->offset = entry->first_hash = 0;
  entry->stored = spec->type;
  entry->shard = 0;
  table->n_entries++;
  return RENGA_SUCCESS;
}

const char *RengaCheckpointTableGetAttribute(const RengaCheckpointTable *table, const char *name)
{
  for (int i = 0; i < table->n_attributes; i++)
    if (strcmp(table->attributes[i].name, name) == 0) return table->attributes[i].value;
  return NULL;
}

static RengaErrorCode AddAttribute(RengaCheckpointTable *table, const char *name)
{
  RengaCall(RengaRealloc(table->n_attributes + 1, &table->attributes));
  RengaCheckpointAttribute *attribute = &table->attributes[table->n_attributes];
  RengaCall(RengaStringCopy("", &attribute->value));
  const RengaErrorCode code = RengaStringCopy(name, &attribute->name);
  if (code) RengaFree(&attribute->value);
  RengaCall(code);
  table->n_attributes++;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointTableSetAttribute(RengaCheckpointTable *table, const char *name,
                                                const char *value)
{
  char *copy;
  int i = 0;
  while (i < table->n_attributes && strcmp(table->attributes[i].name, name) != 0) i++;
  if (i == table->n_attributes) RengaCall(AddAttribute(table, name));
  RengaCall(RengaStringCopy(value, &copy));
  RengaFree(&table->attributes[i].value);
  table->attributes[i].value = copy;
  return RENGA_SUCCESS;
}

static int CompareEntries(const void *a, const void *b)
{
  return strcmp(((const RengaCheckpointEntry *)a)->name, ((const RengaCheckpointEntry *)b)->name);
}

void RengaCheckpointTableSort(RengaCheckpointTable *table)
{
  if (table->n_entries > 0)
    qsort(table->entries, (size_t)table->n_entries, sizeof *table->entries, CompareEntries);
}

int RengaCheckpointTableFind(const RengaCheckpointTable *table, const char *name)
{
  int low = 0, high = table->n_entries - 1;
  while (low <= high) {
    int middle = low + (high - low) / 2, order = strcmp(name, table->entries[middle].name);
    if (order == 0) return middle;
    if (order < 0)
      high = middle - 1;
    else
      low = middle + 1;
  }
  return -1;
}

void RengaCheckpointTableFree(RengaCheckpointTable *table)
{
  for (int i = 0; i < table->n_entries; i++) RengaFree(&table->entries[i].name);
  for (int i = 0; i < table->n_attributes; i++) {
    RengaFree(&table->attributes[i].name);
    RengaFree(&table->attributes[i].value);
  }
  RengaFree(&table->entries);
  RengaFree(&table->hashes);
  RengaFree(&table->attributes);
  *table = (RengaCheckpointTable){0};
}

/* An entry between ranks; its name follows, with the zero at its end. */
typedef struct {
  RengaTensorSpec spec;
  int64_t offset, bytes;
  int32_t name_bytes, state, stored, shard;
} Packed;

typedef struct {
  char *bytes;
  size_t used, room;
} TableBuffer;

static RengaErrorCode AppendBytes(TableBuffer *buffer, const void *bytes, size_t count)
{
  if (buffer->used + count > buffer->room) {
    buffer->room = 2 * buffer->room + count;
    RengaCall(RengaRealloc(buffer->room, &buffer->bytes));
  }
  memcpy(buffer->bytes + buffer->used, bytes, count);
  buffer->used += count;
  return RENGA_SUCCESS;
}

static RengaErrorCode AppendEntry(TableBuffer *buffer, const RengaCheckpointEntry *entry)
{
  Packed packed;
  memset(&packed, 0, sizeof packed);
  packed.spec = entry->spec;
  packed.offset = entry->offset;
  packed.name_bytes = (int32_t)strlen(entry->name) + 1;
  packed.state = entry->state;
  packed.bytes = entry->bytes;
  packed.stored = (int32_t)entry->stored;
  packed.shard = entry->shard;
  RengaCall(AppendBytes(buffer, &packed, sizeof packed));
  RengaCall(AppendBytes(buffer, entry->name, (size_t)packed.name_bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddPacked(RengaCheckpointTable *table, const char *bytes, size_t count)
{
  for (size_t at = 0; at < count;) {
    Packed packed;
    memcpy(&packed, bytes + at, sizeof packed);
    at += sizeof packed;
    RengaCall(RengaCheckpointTableAdd(table, bytes + at, &packed.spec, packed.state != 0));
    RengaCheckpointEntry *entry = &table->entries[table->n_entries - 1];
    entry->offset = packed.offset;
    entry->bytes = packed.bytes;
    entry->stored = (RengaDataType)packed.stored;
    entry->shard = packed.shard;
    at += (size_t)packed.name_bytes;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointTableAddHoldings(RengaCheckpointTable *table,
                                               const RengaHoldings *holdings)
{
  table->block = RENGA_HOLDINGS_BLOCK;
  for (int t = 0; t < holdings->n_tensors; t++)
    RengaCall(RengaCheckpointTableAdd(table, holdings->tensor[t].name, &holdings->tensor[t].spec,
                                      holdings->tensor[t].state));
  return RENGA_SUCCESS;
}

int64_t RengaCheckpointTableBlocks(const RengaCheckpointTable *table, int entry)
{
  const int64_t bytes = table->entries[entry].bytes;
  return table->block == 0 || bytes == 0 ? 1 : (bytes + table->block - 1) / table->block;
}

void RengaCheckpointTableBlock(const RengaCheckpointTable *table, int entry, int64_t block,
                               int64_t *first, int64_t *bytes)
{
  const int64_t left = table->entries[entry].bytes - block * table->block;
  *first = block * table->block;
  *bytes = table->block == 0 || left < table->block ? left : table->block;
}

RengaErrorCode RengaCheckpointTableCountHashes(RengaCheckpointTable *table)
{
  table->n_hashes = 0;
  for (int i = 0; i < table->n_entries; i++) {
    table->entries[i].first_hash = table->n_hashes;
    table->n_hashes += RengaCheckpointTableBlocks(table, i);
  }
  RengaFree(&table->hashes);
  RengaCall(RengaMalloc(table->n_hashes + 1, &table->hashes));
  return RENGA_SUCCESS;
}

static RengaErrorCode Pack(const RengaCheckpointTable *table, TableBuffer *entries,
                           TableBuffer *attributes)
{
  for (int i = 0; i < table->n_entries; i++) RengaCall(AppendEntry(entries, &table->entries[i]));
  for (int i = 0; i < table->n_attributes; i++) {
    const RengaCheckpointAttribute *attribute = &table->attributes[i];
    RengaCall(AppendBytes(attributes, attribute->name, strlen(attribute->name) + 1));
    RengaCall(AppendBytes(attributes, attribute->value, strlen(attribute->value) + 1));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Unpack(RengaCheckpointTable *table, const TableBuffer *entries,
                             const TableBuffer *attributes)
{
  RengaCall(AddPacked(table, entries->bytes, entries->used));
  for (size_t at = 0; at < attributes->used;) {
    const char *name = attributes->bytes + at, *value = name + strlen(name) + 1;
    RengaCall(RengaCheckpointTableSetAttribute(table, name, value));
    at = (size_t)(value + strlen(value) + 1 - attributes->bytes);
  }
  RengaCall(RengaCheckpointTableCountHashes(table));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointTablePack(const RengaCheckpointTable *table, char **bytes,
                                        int64_t *count)
{
  TableBuffer entries = {NULL, 0, 0}, attributes = {NULL, 0, 0}, all = {NULL, 0, 0};
  RengaErrorCode code = Pack(table, &entries, &attributes);
  const int64_t head[3] = {table->step, table->block, (int64_t)entries.used};
  if (!code) code = AppendBytes(&all, head, sizeof head);
  if (!code && entries.used) code = AppendBytes(&all, entries.bytes, entries.used);
  if (!code && attributes.used) code = AppendBytes(&all, attributes.bytes, attributes.used);
  RengaFree(&entries.bytes);
  RengaFree(&attributes.bytes);
  if (code) RengaFree(&all.bytes);
  RengaCall(code);
  *bytes = all.bytes;
  *count = (int64_t)all.used;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointTableUnpack(char *bytes, int64_t count, RengaCheckpointTable *table)
{
  int64_t head[3];
  memcpy(head, bytes, sizeof head);
  table->step = head[0];
  table->block = head[1];
  const TableBuffer entries = {bytes + sizeof head, (size_t)head[2], 0};
  const TableBuffer attributes = {entries.bytes + entries.used,
                                  (size_t)count - sizeof head - entries.used, 0};
  RengaCall(Unpack(table, &entries, &attributes));
  return RENGA_SUCCESS;
}

/* The head of rank 0, and room for what follows. */
static RengaErrorCode TakeHead(const int64_t head[6], RengaCheckpointTable *table,
                               TableBuffer *entries, TableBuffer *attributes)
{
  RengaCheckpointTableFree(table);
  table->step = head[0];
  table->file_bytes = head[1];
  table->index_offset = head[2];
  table->block = head[5];
  entries->used = (size_t)head[3];
  attributes->used = (size_t)head[4];
  RengaCall(RengaMalloc(entries->used, &entries->bytes));
  RengaCall(RengaMalloc(attributes->used, &attributes->bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShareDigestTable(RengaComm comm, RengaCheckpointTable *table,
                                       TableBuffer *entries, TableBuffer *attributes)
{
  static const char what[] = "the table of a checkpoint";
  const bool root = RengaCommGetRank(comm) == 0;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCall(RengaErrorAgree(ranks, root ? Pack(table, entries, attributes) : RENGA_SUCCESS));
  int64_t head[6] = {table->step,
                     table->file_bytes,
                     table->index_offset,
                     (int64_t)entries->used,
                     (int64_t)attributes->used,
                     table->block};
  RengaCall(RengaCommBroadcast(comm, head, sizeof head, 0, what));
  RengaCall(
      RengaErrorAgree(ranks, root ? RENGA_SUCCESS : TakeHead(head, table, entries, attributes)));
  RengaCall(RengaCommBroadcast(comm, entries->bytes, entries->used, 0, what));
  RengaCall(RengaCommBroadcast(comm, attributes->bytes, attributes->used, 0, what));
  RengaCall(RengaErrorAgree(ranks, root ? RENGA_SUCCESS : Unpack(table, entries, attributes)));
  RengaCall(RengaCommBroadcast(comm, table->hashes, (size_t)table->n_hashes * sizeof *table->hashes,
                               0, what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointTableBroadcast(RengaComm comm, RengaCheckpointTable *table)
{
  TableBuffer entries = {NULL, 0, 0}, attributes = {NULL, 0, 0};
  const RengaErrorCode code = ShareDigestTable(comm, table, &entries, &attributes);
  RengaFree(&entries.bytes);
  RengaFree(&attributes.bytes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Names may hold anything; a link of HDF5 no '/', and not "." alone. Reversible: %2F, %2E, %25. */
static void Escape(const char *name, size_t length, char *to)
{
  static const char digits[] = "0123456789ABCDEF";
  bool dot = length == 1 && name[0] == '.';
  for (size_t i = 0; i < length; i++) {
    unsigned char letter = (unsigned char)name[i];
    if (letter == '/' || letter == '%' || dot) {
      *to++ = '%';
      *to++ = digits[letter >> 4];
      *to++ = digits[letter & 15];
    } else
      *to++ = (char)letter;
  }
  *to = '\0';
}

/* "NAME:second_moment" is a moment where NAME is a tensor too. */
RengaErrorCode RengaCheckpointTableIsMoment(const RengaCheckpointTable *table, int entry,
                                            bool *moment)
{
  const char *name = table->entries[entry].name, *colon = strrchr(name, ':');
  char *base;
  *moment = false;
  if (!colon || !colon[1]) return RENGA_SUCCESS;
  RengaCall(RengaStringCopy(name, &base));
  base[colon - name] = '\0';
  *moment = RengaCheckpointTableFind(table, base) >= 0;
  RengaFree(&base);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointTablePath(const RengaCheckpointTable *table, int entry, char **path)
{
  const char *name = table->entries[entry].name, *colon = strrchr(name, ':');
  size_t length = strlen(name), head = 0;
  bool moment;
  char *text;
  RengaCall(RengaCheckpointTableIsMoment(table, entry, &moment));
  RengaCall(RengaMalloc(6 * length + 64, &text));
  if (moment) {
    strcpy(text, "/moments/");
    Escape(colon + 1, strlen(colon + 1), text + strlen(text));
    strcat(text, "/");
    length = (size_t)(colon - name);
  } else
    strcpy(text, table->entries[entry].state ? "/states/" : "/parameters/");
  head = strlen(text);
  Escape(name, length, text + head);
  if (length == 0) strcat(text, "%");
  *path = text;
  return RENGA_SUCCESS;
}
