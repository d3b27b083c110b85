/* Renga: trains neural networks that are larger than one device, on many. Includes all classes.
   What a function does, who calls it and how it fails stands in its manual page, such as
   RengaPipelineStep(3). */
#pragma once
#include "rengacheckpoint.h"
#include "rengacomm.h"
#include "rengadata.h"
#include "rengadevice.h"
#include "rengagraph.h"
#include "rengamachine.h"
#include "rengaop.h"
#include "rengaoptimizer.h"
#include "rengapartition.h"
#include "rengapersistent.h"
#include "rengapipeline.h"
#include "rengaplan.h"
#include "rengaprofile.h"
#include "rengaschedule.h"
#include "rengasettings.h"
#include "rengasys.h"
#include "rengatrainer.h"
#include "rengatransport.h"
