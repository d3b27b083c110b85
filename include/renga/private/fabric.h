/* Messages from device to device by a library of the devices' own, such as NCCL: what a type of
   devices may have beside its table (device.h).

   A wire joins ranks, each with a device of its own. Its messages are work queued on streams, and
   run one after the other in the order of the calls, but for those between begin and end, which
   run at once: between two ranks they are matched by order, and have the same length on both. */
#pragma once
#include "rengadevice.h"

enum { RENGA_FABRIC_KEY = 128, RENGA_FABRIC_TEXT = 192 };
typedef struct _RengaWire *RengaWire;

typedef struct {
  const char *library;
  /* Whether this process can have wires. text: the library's version, or why not. */
  bool (*find)(RengaDevice device, char text[RENGA_FABRIC_TEXT]);
  /* What tells this device from others of its node. */
  RengaErrorCode (*place)(RengaDevice device, char text[RENGA_FABRIC_TEXT]);
  /* key: of one wire, which all its ranks need. */
  RengaErrorCode (*makekey)(RengaDevice device, char key[RENGA_FABRIC_KEY]);
  /* Waits for all ranks. narrow: messages leave the device to kernels, and may be slower. */
  RengaErrorCode (*open)(RengaDevice device, const char key[RENGA_FABRIC_KEY], int ranks, int rank,
                         bool narrow, RengaWire *wire);
  RengaErrorCode (*begin)(RengaDevice device);
  RengaErrorCode (*end)(RengaDevice device);
  RengaErrorCode (*send)(RengaDevice device, RengaWire wire, RengaStream stream, const void *from,
                         size_t bytes, int to);
  RengaErrorCode (*receive)(RengaDevice device, RengaWire wire, RengaStream stream, void *to,
                            size_t bytes, int from);
  /* Over all ranks of the wire, in the library's order. */
  RengaErrorCode (*sum)(RengaDevice device, RengaWire wire, RengaStream stream, RengaDataType type,
                        int64_t count, void *values);
  RengaErrorCode (*sumdoubles)(RengaDevice device, RengaWire wire, RengaStream stream,
                               int64_t count, double values[]);
  /* How many streams of the device wait for nothing but their own work: beyond them two may share
     a queue of the hardware, where what waits stops what stands behind it. */
  RengaErrorCode (*queues)(RengaDevice device, int *queues);
  /* Streams that the library itself has for each wire. */
  int own_streams;
  /* An error that it met since. */
  RengaErrorCode (*check)(RengaDevice device, RengaWire wire);
  /* abort: what is queued ends, done or not. */
  RengaErrorCode (*close)(RengaDevice device, RengaWire *wire, bool abort);
} RengaFabric;

/* NULL: devices of this type have none. */
const RengaFabric *RengaDeviceGetFabric_Private(RengaDevice device);
