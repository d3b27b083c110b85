/* What is written as a folder of safetensors files, and the files beside them. */
#pragma once
#include "../file.h"

typedef struct {
  const RengaCheckpointTable *table; /* sorted; all of its entries are written */
  const char *name;                  /* of the file without its end: "model" */
  RengaDataType type;                /* float32, bfloat16, float16 */
  int64_t file_bytes;                /* a file has more only where one tensor has */
  /* Elements [first, first + count) of an entry. */
  RengaErrorCode (*read)(void *user, int entry, int64_t first, int64_t count, float to[]);
  void *user;
} RengaSafetensorsSource;
/* write.c, by one process: into a folder that is there. */
RengaErrorCode RengaSafetensorsWrite(const char *folder, const RengaSafetensorsSource *source);
/* beside.c, by one process: config.json of another folder, with the type of the numbers, and as far
   as they are there the files of its tokenizer. */
RengaErrorCode RengaSafetensorsCopyFiles(const char *from, const char *folder, RengaDataType type);
/* FOLDER/NAME; RengaFree(path). */
RengaErrorCode RengaSafetensorsJoin(const char *folder, const char *name, char **path);
