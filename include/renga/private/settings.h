/* The settings as the rooms that run by them see them: read through the members, set through
   setters. */
#pragma once
#include "renga/private/object.h"
#include "rengasettings.h"

enum { RENGA_BUCKETS_MOST = 1000, RENGA_CHUNKS_MOST = 1000 };

struct _p_RengaSettings {
  struct _p_RengaObject hdr;
  RengaDevice device;
  RengaOptimizer optimizer;
  int64_t seed, memory_bound;
  double timeout; /* of -pipeline_timeout; negative: not given */
  char *reduction;
  int buckets;     /* of a stage's gradients */
  int chunks;      /* stages of a rank; 0: nothing was said */
  char *schedule;  /* NULL: not said */
  double eager;    /* negative: not said */
  char *transport; /* NULL: not said */
  int users;       /* pipelines that are set up with these: nothing may change under them */
};

/* What a pipeline that is set up holds on to. */
void RengaSettingsHold_Private(RengaSettings settings);
void RengaSettingsRelease_Private(RengaSettings settings);
/* An error of the function `what` where a pipeline holds on to the settings. */
RengaErrorCode RengaSettingsCheckUnused_Private(RengaSettings settings, const char *what);
bool RengaSettingsIsOrdered_Private(RengaSettings settings);
RengaErrorCode RengaSettingsSetDefaults_Private(RengaSettings settings);
RengaErrorCode RengaSettingsReadRows_Private(RengaSettings settings); /* of the data base */
