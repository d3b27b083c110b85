/* Errors that the caller tells in a sentence of its own. */
#pragma once
#include "rengasys.h"

typedef struct {
  RengaErrorHandler report; /* who is told otherwise, and of warnings all the same */
  void *user;
} RengaQuiet;

/* Until the end errors are told to nobody; quiet stays where it is. One may be inside another. */
void RengaQuietBegin_Private(RengaQuiet *quiet);
void RengaQuietEnd_Private(const RengaQuiet *quiet);

/* Collective, behind RengaQuietEnd_Private(): as RengaErrorAgree(), of an error that nobody was
   told and that ranks have found alike. The first of them tells it. */
RengaErrorCode RengaErrorAgreeOnce_Private(MPI_Comm comm, RengaErrorCode mine);

/* The error at hand is one that this rank tells, or would but for quiet; not of another rank. */
bool RengaErrorIsReported(void);

/* Errors that this rank has found so far: a program's function that returns a code, and found none
   by RengaRaise, has told nobody. */
int64_t RengaErrorCount_Private(void);
