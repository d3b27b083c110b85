/* XXH64 of bytes that come piece by piece: the same number as RengaHash of all of them. */
#pragma once
#include "rengasys.h"

typedef struct _RengaHasher *RengaHasher;
RengaErrorCode RengaHasherCreate(RengaHasher *hasher); /* seed 0 */
void RengaHasherRestart(RengaHasher hasher, uint64_t seed);
void RengaHasherAdd(RengaHasher hasher, const void *bytes, size_t count);
uint64_t RengaHasherGet(RengaHasher hasher);
void RengaHasherDestroy(RengaHasher *hasher);

/* Of this host's name, for names that no other host gives: gethostid() asks the name server, which
   nodes of clusters may wait for in vain. */
uint64_t RengaHashHost_Private(void);
