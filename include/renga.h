/* Renga: trains neural networks that are larger than one device, on many. Includes all classes. */
#pragma once
#include "rengacheckpoint.h"
#include "rengacomm.h"
#include "rengadata.h"
#include "rengadevice.h"
#include "rengagraph.h"
#include "rengaop.h"
#include "rengaoptimizer.h"
#include "rengapartition.h"
#include "rengapipeline.h"
#include "rengaplan.h"
#include "rengaschedule.h"
#include "rengasys.h"
