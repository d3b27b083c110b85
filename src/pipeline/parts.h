/* Parameters of which lanes have parts (parts.c). */
#pragma once
#include "pipelineimpl.h"

RengaErrorCode RengaOutlineFindParts_Private(Outline *outline);
const RengaGraphNode *RengaOutlinePartsOf_Private(const Outline *outline, RengaValue whole);
RengaErrorCode RengaChunkMarkParts_Private(Chunk *chunk);
void RengaChunkFreeUses_Private(Chunk *chunk);
RengaErrorCode RengaChunkGetPart_Private(const Chunk *chunk, const RengaGraphNode *split, int o,
                                         RengaValue *value, RengaRectangle *part);
RengaErrorCode RengaChunkCutParts_Private(const Chunk *chunk, const Parameter *parameter,
                                          ParameterRole role, int *count, RengaRectangle part[]);
/* joined.c: parts that a lane puts together lie one after the other. */
RengaErrorCode RengaChunkOrderParameters_Private(const Chunk *chunk, int order[]);
RengaErrorCode RengaChunkPlaceJoined_Private(Chunk *chunk);
RengaErrorCode RengaChunkListUses_Private(Chunk *chunk, int count, const RengaParameterUse whole[]);
