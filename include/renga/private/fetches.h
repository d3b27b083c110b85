/* What the replicas of a plan's stages, and their tensor ranks, give each other, for who predicts a
   step of it. */
#pragma once
#include "renga/private/forecast.h"
#include "rengapipeline.h"

/* As RengaPipelineForecastStages(); exchange: [stages]; fullest: RengaForecastRun */
RengaErrorCode RengaPipelineForecastExchanges_Private(RengaPipeline pipeline, bool fullest,
                                                      RengaPipelineMemory memory[],
                                                      RengaForecastExchange exchange[]);
