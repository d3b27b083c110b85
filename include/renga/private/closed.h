/* Memory that nothing may touch but while it is opened: for devices whose memory is not the
   host's. A touch at any other time ends the process and says where. */
#pragma once
#include "rengasys.h"

typedef struct _RengaClosedSpace *RengaClosedSpace;

/* name: of the owner, for messages; lent. */
RengaErrorCode RengaClosedCreate_Private(const char *name, RengaClosedSpace *space);
/* A closed block of bytes 0xff; its start is a multiple of 64, and a page that is never opened
   stands before and behind it. */
RengaErrorCode RengaClosedMalloc_Private(RengaClosedSpace space, size_t bytes, void **pointer);
/* The block stays closed for ever: its addresses are not used again. */
RengaErrorCode RengaClosedFree_Private(RengaClosedSpace space, void **pointer);
/* [at, at + bytes) of a block that is not freed, and of a small block all of it, until all blocks
   are closed again. */
RengaErrorCode RengaClosedOpen_Private(RengaClosedSpace space, const void *at, size_t bytes);
RengaErrorCode RengaClosedClose_Private(RengaClosedSpace space);
/* What is at work while the space is open; lent, NULL: nothing. */
void RengaClosedSay_Private(RengaClosedSpace space, const char *work);
void RengaClosedDestroy_Private(RengaClosedSpace *space);
