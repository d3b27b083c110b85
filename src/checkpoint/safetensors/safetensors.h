/* Files of the safetensors format: 8 bytes with the length of the header, little-endian; the
   header, JSON with type, shape and place of each tensor; the tensors. A folder has one of them,
   model.safetensors, or several and model.safetensors.index.json. */
#pragma once
#include "../file.h"

/* header.c, by one process: the tensors of FOLDER/FILE, as entries of the table that begin at their
   places in the file. Those of 16 bits are float32 that is stored otherwise. */
RengaErrorCode RengaSafetensorsReadHeader(const char *folder, const char *file, int shard,
                                          RengaCheckpointTable *table);
/* folder.c, by one process: is the path such a folder, or a file FOLDER/NAME.safetensors? */
bool RengaSafetensorsIsThere(const char *path);
bool RengaSafetensorsHasFile(const char *folder, const char *name);
/* The tensors of FOLDER/FILE; attribute "shard 0" is its path. */
RengaErrorCode RengaSafetensorsReadOne(const char *folder, const char *file,
                                       RengaCheckpointTable *table);
/* The tensors of all its files, sorted. Attributes "shard 0", "shard 1", … are their paths. */
RengaErrorCode RengaSafetensorsReadFolder(const char *path, RengaCheckpointTable *table);
/* names.c, by one process: entries get the names of the network, which are sorted: the first word
   of these may be missing in the folder. What the network makes itself is left out, and a second
   copy of a table that the network has once. */
RengaErrorCode RengaSafetensorsMatchNames(int count, const char *const network[],
                                          RengaCheckpointTable *table);
/* part.c: this rank's parts of tensors, each of which is an entry of the table. worst: the entry
   with a number that is not finite, the first of all; else INT_MAX. */
RengaErrorCode RengaSafetensorsReadParts(RengaDevice device, const RengaCheckpointTable *table,
                                         int count, const RengaPersistent tensors[], int *worst);
/* A file in memory. */
typedef struct {
  const char *path;
  unsigned char *bytes;
  int64_t size;
} RengaMappedFile;
RengaErrorCode RengaMapFile(const char *path, RengaMappedFile *file); /* map.c */
void RengaUnmapFile(RengaMappedFile *file);
/* Bytes that were copied are not kept in memory a second time. */
void RengaForgetMapped(const RengaMappedFile *file, int64_t first, int64_t bytes);
const char *RengaSafetensorsShard(const RengaCheckpointTable *table, int shard); /* its path */
