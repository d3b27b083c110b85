/* The settings that costs are for. */
#include "profileimpl.h"

RengaErrorCode RengaProfileNeedSettings_Private(RengaProfile profile, RengaSettings *settings)
{
  if (!profile->settings) RengaCall(RengaSettingsCreate(profile->hdr.owner, &profile->settings));
  *settings = profile->settings;
  return RENGA_SUCCESS;
}
