/* Names of a folder and of the network. A folder of the model without its head has names without
   the word that the whole network puts in front: h.0.ln_1.weight for transformer.h.0.ln_1.weight.
   Old ones of BERT have gamma and beta for weight and bias.
   Masks and angles that older libraries kept beside the parameters are left out. */
#include "safetensors.h"
#include <stdlib.h>
#include <string.h>

/* Made by the network itself. */
static const struct {
  const char *end;
  int ndim; /* -1: any */
} made[] = {{"rotary_emb.inv_freq", 1},   {"attn.bias", 4},
            {"attention.bias", 4},        {"attn.masked_bias", 0},
            {"attention.masked_bias", 0}, {"embeddings.position_ids", 2}};

static bool EndsWithWord(const char *name, const char *end)
{
  const size_t length = strlen(name), tail = strlen(end);
  return length >= tail && strcmp(name + length - tail, end) == 0 &&
         (length == tail || name[length - tail - 1] == '.');
}

static bool IsMade(const RengaCheckpointEntry *entry)
{
  for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
    if (entry->spec.ndim == made[i].ndim && EndsWithWord(entry->name, made[i].end)) return true;
  return false;
}

static const char *AfterFirstWord(const char *name)
{
  const char *dot = strchr(name, '.');
  return dot ? dot + 1 : NULL;
}

static int CompareNames(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool HasName(int count, const char *const network[], const char *name)
{
  return bsearch(&name, network, (size_t)count, sizeof *network, CompareNames) != NULL;
}

/* -1: there is no such entry, or the network has another use for it. */
static int FindUnused(const RengaCheckpointTable *table, int count, const char *const network[],
                      const char *name)
{
  return HasName(count, network, name) ? -1 : RengaCheckpointTableFind(table, name);
}

/* What the first libraries called the parameters of LayerNorm: gamma for weight, beta for bias. */
static int FindOldNorm(const RengaCheckpointTable *table, int count, const char *const network[],
                       const char *name)
{
  static const struct {
    const char *end, *old;
  } ends[] = {{"LayerNorm.weight", "gamma"}, {"LayerNorm.bias", "beta"}};
  char old[512];
  for (int i = 0; i < 2; i++) {
    if (!EndsWithWord(name, ends[i].end) || strlen(name) >= sizeof old) continue;
    strcpy(old, name);
    strcpy(strrchr(old, '.') + 1, ends[i].old); /* which is shorter */
    return FindUnused(table, count, network, old);
  }
  return -1;
}

/* The entry that is the parameter under another name: without its first word, or of old. */
static int FindOtherName(const RengaCheckpointTable *table, int count, const char *const network[],
                         const char *name)
{
  const char *rest = AfterFirstWord(name);
  int found = -1;
  if (RengaCheckpointTableFind(table, name) >= 0) return -1;
  if (rest) found = FindUnused(table, count, network, rest);
  if (found < 0) found = FindOldNorm(table, count, network, name);
  if (found < 0 && rest) found = FindOldNorm(table, count, network, rest);
  return found;
}

/* renamed: [n_entries] of the table as it is sorted now. */
static RengaErrorCode FindNewNames(const RengaCheckpointTable *table, int count,
                                   const char *const network[], char *renamed[])
{
  for (int i = 0; i < count; i++) {
    const int found = FindOtherName(table, count, network, network[i]);
    if (found >= 0 && !renamed[found]) RengaCall(RengaStringCopy(network[i], &renamed[found]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode GiveNames(RengaCheckpointTable *table, int count, const char *const network[])
{
  char **renamed = NULL;
  RengaCall(RengaMalloc(table->n_entries + 1, &renamed));
  const RengaErrorCode code = FindNewNames(table, count, network, renamed);
  for (int i = 0; i < table->n_entries; i++) {
    if (!renamed[i]) continue;
    RengaFree(&table->entries[i].name);
    table->entries[i].name = renamed[i];
  }
  RengaFree(&renamed);
  RengaCheckpointTableSort(table);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* ---- what is written twice ---- */
/* Both are whole and in bounds: the header was looked at. */
static RengaErrorCode CompareBytes(const RengaCheckpointTable *table,
                                   const RengaCheckpointEntry *one,
                                   const RengaCheckpointEntry *other, bool *equal)
{
  RengaMappedFile first = {.bytes = NULL}, second = {.bytes = NULL};
  RengaErrorCode code = RengaMapFile(RengaSafetensorsShard(table, one->shard), &first);
  if (!code) code = RengaMapFile(RengaSafetensorsShard(table, other->shard), &second);
  *equal = !code && one->bytes > 0 && one->offset + one->bytes <= first.size &&
           other->offset + other->bytes <= second.size &&
           memcmp(first.bytes + one->offset, second.bytes + other->offset, (size_t)one->bytes) == 0;
  RengaUnmapFile(&first);
  RengaUnmapFile(&second);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The output layer of a network that has one table for both ends, or the table of one of two
   stacks that share theirs. */
static bool IsHead(const char *name)
{
  return EndsWithWord(name, "lm_head.weight") || EndsWithWord(name, "embed_out.weight") ||
         EndsWithWord(name, "proj_out.weight") ||
         EndsWithWord(name, "predictions.decoder.weight") ||
         EndsWithWord(name, "predictions.decoder.bias") || strcmp(name, "decoder.weight") == 0 ||
         EndsWithWord(name, "encoder.embed_tokens.weight") ||
         EndsWithWord(name, "decoder.embed_tokens.weight");
}

static RengaErrorCode IsTiedCopy(const RengaCheckpointTable *table, int head, bool *is)
{
  const RengaCheckpointEntry *entry = &table->entries[head];
  *is = false;
  for (int i = 0; i < table->n_entries && !*is; i++) {
    const RengaCheckpointEntry *other = &table->entries[i];
    if (i != head && other->stored == entry->stored &&
        RengaTensorSpecEqual(&entry->spec, &other->spec))
      RengaCall(CompareBytes(table, entry, other, is));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MayGo(const RengaCheckpointTable *table, int entry, bool *goes)
{
  const char *name = table->entries[entry].name;
  *goes = IsMade(&table->entries[entry]);
  if (!*goes && IsHead(name)) RengaCall(IsTiedCopy(table, entry, goes));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSafetensorsMatchNames(int count, const char *const network[],
                                          RengaCheckpointTable *table)
{
  RengaCall(GiveNames(table, count, network));
  for (int i = table->n_entries; i-- > 0;) {
    bool goes = false;
    if (HasName(count, network, table->entries[i].name)) continue;
    RengaCall(MayGo(table, i, &goes));
    if (!goes) continue;
    RengaFree(&table->entries[i].name);
    table->n_entries--;
    memmove(&table->entries[i], &table->entries[i + 1],
            (size_t)(table->n_entries - i) * sizeof *table->entries);
  }
  return RENGA_SUCCESS;
}
