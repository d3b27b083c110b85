/* Ranks that compute a stage together: set-up (group.c) and messages (entry/exchange.c). */
#pragma once
#include "chunk.h"

RengaErrorCode RengaPipelineCheckTensor_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineCheckEntries_Private(RengaPipeline pipeline); /* collective */
void RengaChunkCountExchanges_Private(Chunk *chunk);
RengaErrorCode RengaChunkMakeRoomForExchanges_Private(Chunk *chunk, const Program *program);
RengaErrorCode RengaChunkFreeExchanges_Private(Chunk *chunk);
