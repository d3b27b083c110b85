/* What the files of the search share. */
#pragma once
#include "renga/private/forecast.h"

RengaMemoryForecast RengaSearchForecast_Private(void); /* NULL: none is installed */
RengaPartitionCapabilities RengaSearchCapabilities_Private(void);
