/* Epochs that leave out samples, and the samples that each rank holds. */
#pragma once
#include "rengadata.h"

RengaErrorCode RengaDataBeginEpoch(RengaData data, int64_t epoch, int64_t batch, double progress,
                                   RengaDataEpoch *chosen);
RengaErrorCode RengaDataGetHidden(RengaData data, int64_t *epoch, int64_t *hidden);
RengaErrorCode RengaDataPutLosses(RengaData data, int64_t epoch, int64_t first, int64_t count,
                                  int64_t columns, const double values[]);
RengaErrorCode RengaDataGetHidingState(RengaData data, int64_t *samples, float **state);
RengaErrorCode RengaDataResumeEpoch(RengaData data, int64_t epoch, int64_t batch);
RengaErrorCode RengaDataKeepEpoch(RengaData data);
RengaErrorCode RengaDataPlace(RengaData data, const int64_t first[], const int64_t last[]);
RengaErrorCode RengaDataBeginStep(RengaData data, int64_t step);
