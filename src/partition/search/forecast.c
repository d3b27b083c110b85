/* The forecast of the runtime above, which it installs when the library starts. */
#include "../partitionimpl.h"
#include "search.h"

static const RengaMemoryForecast *installed_forecast;

RengaErrorCode RengaPartitionSetForecast_Private(const RengaMemoryForecast *forecast)
{
  installed_forecast = forecast;
  return RENGA_SUCCESS;
}

const RengaMemoryForecast *RengaSearchForecast_Private(void)
{
  return installed_forecast;
}
