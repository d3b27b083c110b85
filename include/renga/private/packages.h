/* What each room registers at start: its options and types. Called by RengaInitialize, once. */
#pragma once
#include "rengasys.h"
RengaErrorCode RengaSysRegisterPackage(void);
RengaErrorCode RengaDeviceRegisterPackage(void);
RengaErrorCode RengaCommRegisterPackage(void);
RengaErrorCode RengaOptimizerRegisterPackage(void);
RengaErrorCode RengaMachineRegisterPackage(void);
RengaErrorCode RengaProfileRegisterPackage(void);
RengaErrorCode RengaPlanRegisterPackage(void);
RengaErrorCode RengaPartitionRegisterPackage(void);
RengaErrorCode RengaScheduleRegisterPackage(void);
RengaErrorCode RengaSettingsRegisterPackage(void);
RengaErrorCode RengaGraphRegisterPackage(void);
RengaErrorCode RengaPipelineRegisterPackage(void);
RengaErrorCode RengaDataRegisterPackage(void);
RengaErrorCode RengaCheckpointRegisterPackage(void);
RengaErrorCode RengaTrainerRegisterPackage(void);
