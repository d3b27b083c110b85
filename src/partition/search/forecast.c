/* What the runtime above told the planner of itself, once, when the library started. */
#include "../partitionimpl.h"
#include "search.h"

static const RengaMemoryForecast *installed_forecast;
static RengaPartitionCapabilities installed_capabilities;

RengaErrorCode RengaPartitionSetForecast_Private(const RengaMemoryForecast *forecast)
{
  installed_forecast = forecast;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionSetCapabilities_Private(const RengaPartitionCapabilities *capabilities)
{
  RengaCheckPointer(capabilities);
  installed_capabilities = *capabilities;
  return RENGA_SUCCESS;
}

const RengaMemoryForecast *RengaSearchForecast_Private(void)
{
  return installed_forecast;
}

RengaPartitionCapabilities RengaSearchCapabilities_Private(void)
{
  return installed_capabilities;
}
