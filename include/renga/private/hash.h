/* XXH64 of bytes that come piece by piece: the same number as RengaHash of all of them, seed 0. */
#pragma once
#include "rengasys.h"

typedef struct _RengaHasher *RengaHasher;
RengaErrorCode RengaHasherCreate(RengaHasher *hasher);
void RengaHasherRestart(RengaHasher hasher);
void RengaHasherAdd(RengaHasher hasher, const void *bytes, size_t count);
uint64_t RengaHasherGet(RengaHasher hasher);
void RengaHasherDestroy(RengaHasher *hasher);
