/* -monitor tensorboard:DIR: event files of TensorBoard. A file is a sequence of TFRecords (the
   length, its checksum, the bytes, their checksum), each an Event of tensorboard/compat/proto in
   the form of protocol buffers; the few fields that scalars need are written by hand. */
#include "monitor.h"
#include "renga/private/open.h"
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Numbers of fields in event.proto and summary.proto, and types of fields on the wire. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER = 2, SESSION_STATUS = 1, SESSION_START = 1 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* Eight scalars with their tags have 320 bytes. */
typedef struct {
  unsigned char bytes[1024];
  size_t used;
} EventText;

typedef struct {
  char *folder, *file_name;
  FILE *file;            /* NULL: it is not open yet, or could not be written */
  long whole;            /* bytes of whole records */
  int64_t step, missing; /* the last step; steps that are not in the file */
} Events;

typedef struct {
  const char *tag;
  double value;
} EventScalar;

/* CRC-32C (Castagnoli), bit by bit: a step has a few hundred bytes. */
static uint32_t ChecksumEvent(size_t count, const unsigned char bytes[])
{
  uint32_t sum = 0xffffffffU;
  for (size_t i = 0; i < count; i++) {
    sum ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) sum = (sum >> 1) ^ (0x82f63b78U & (0U - (sum & 1)));
  }
  sum = ~sum;
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8U; /* as TFRecords mask it */
}

static void PutEventByte(EventText *text, unsigned char byte)
{
  if (text->used < sizeof text->bytes) text->bytes[text->used++] = byte;
}

static void PutVarint(EventText *text, uint64_t value)
{
  for (; value >= 0x80; value >>= 7) PutEventByte(text, (unsigned char)(value | 0x80));
  PutEventByte(text, (unsigned char)value);
}

static void PutField(EventText *text, int field, int type)
{
  PutVarint(text, (uint64_t)field << 3 | (uint64_t)type);
}

/* Little-endian. */
static void PutFixed(EventText *text, int bytes, uint64_t value)
{
  for (int i = 0; i < bytes; i++) PutEventByte(text, (unsigned char)(value >> 8 * i));
}

static void PutBytes(EventText *text, int field, size_t count, const void *bytes)
{
  PutField(text, field, WIRE_BYTES);
  PutVarint(text, count);
  for (size_t i = 0; i < count; i++) PutEventByte(text, ((const unsigned char *)bytes)[i]);
}

static void PutScalar(EventText *summary, const EventScalar *scalar)
{
  EventText value = {.used = 0};
  const float number = (float)scalar->value;
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  PutBytes(&value, VALUE_TAG, strlen(scalar->tag), scalar->tag);
  PutField(&value, VALUE_NUMBER, WIRE_32);
  PutFixed(&value, 4, bits);
  PutBytes(summary, SUMMARY_VALUE, value.used, value.bytes);
}

static EventText BeginEvent(int64_t step)
{
  EventText event = {.used = 0};
  struct timespec now;
  uint64_t bits;
  clock_gettime(CLOCK_REALTIME, &now);
  const double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  memcpy(&bits, &seconds, sizeof bits);
  PutField(&event, EVENT_TIME, WIRE_64);
  PutFixed(&event, 8, bits);
  if (step < 0) return event;
  PutField(&event, EVENT_STEP, WIRE_VARINT);
  PutVarint(&event, (uint64_t)step);
  return event;
}

/* Said once; training goes on without the file, which ends with the last whole record. */
static void GiveUpEvents(Events *events)
{
  RengaWarning(MPI_COMM_SELF, "-monitor tensorboard:%s: %s: %s; steps from %lld on are not written",
               events->folder, events->file_name, RengaFileReason_Private(errno),
               (long long)events->step);
  fclose(events->file);
  events->file = NULL;
  events->missing = 1;
  if (truncate(events->file_name, events->whole) != 0)
    RengaWarning(MPI_COMM_SELF, "-monitor tensorboard:%s: %s: its last record is torn: %s",
                 events->folder, events->file_name, RengaFileReason_Private(errno));
}

static void WriteEvent(Events *events, const EventText *event)
{
  EventText head = {.used = 0}, tail = {.used = 0};
  PutFixed(&head, 8, event->used);
  PutFixed(&head, 4, ChecksumEvent(8, head.bytes));
  PutFixed(&tail, 4, ChecksumEvent(event->used, event->bytes));
  const bool good = fwrite(head.bytes, head.used, 1, events->file) == 1 &&
                    fwrite(event->bytes, event->used, 1, events->file) == 1 &&
                    fwrite(tail.bytes, tail.used, 1, events->file) == 1 &&
                    fflush(events->file) == 0;
  if (good)
    events->whole += (long)(head.used + event->used + tail.used);
  else
    GiveUpEvents(events);
}

static void WriteScalars(Events *events, int count, const EventScalar scalars[])
{
  EventText event = BeginEvent(events->step), summary = {.used = 0};
  for (int i = 0; i < count; i++) PutScalar(&summary, &scalars[i]);
  PutBytes(&event, EVENT_SUMMARY, summary.used, summary.bytes);
  WriteEvent(events, &event);
}

/* TensorBoard shows the files of a folder as one curve, so another run's are not added to. */
static RengaErrorCode CheckEventFolder(const char *folder)
{
  bool resume, found = false;
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-monitor tensorboard:%s: %s", folder,
               RengaFileReason_Private(errno));
  DIR *files = opendir(folder);
  RengaCheck(files && access(folder, W_OK | X_OK) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-monitor tensorboard:%s: %s", folder, RengaFileReason_Private(errno));
  for (struct dirent *file; !found && (file = readdir(files)) != NULL;)
    found = strstr(file->d_name, "tfevents") != NULL;
  closedir(files);
  RengaCheck(resume || !found, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-monitor tensorboard:%s: the folder holds the events of another run: name one of "
             "this run's own, or go on with that run by -resume",
             folder);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenEvents(const char *where, void **sink)
{
  Events *events;
  RengaCall(CheckEventFolder(where));
  RengaCall(RengaMalloc(1, &events));
  *sink = events;
  RengaCall(RengaStringCopy(where, &events->folder));
  return RENGA_SUCCESS;
}

/* TensorBoard knows its files by "tfevents" in their names, and reads them in the order of these.
 */
static RengaErrorCode CreateEventFile(Events *events)
{
  char host[256] = "", name[4096];
  gethostname(host, sizeof host - 1);
  for (int again = 0; !events->file && again < 100; again++) {
    snprintf(name, sizeof name, "%s/events.out.tfevents.%010lld.%s.%ld.%d", events->folder,
             (long long)time(NULL), host, (long)getpid(), again);
    events->file = RengaFileOpen_Private(name, "wx");
    if (!events->file && errno != EEXIST) break;
  }
  RengaCheck(events->file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "-monitor tensorboard:%s: %s",
             events->folder, RengaFileReason_Private(errno));
  RengaCall(RengaStringCopy(name, &events->file_name));
  return RENGA_SUCCESS;
}

/* The start of a session at a step takes back what was written of later ones. */
static RengaErrorCode BeginEvents(void *sink, const AppRun *run)
{
  static const char version[] = "brain.Event:2";
  Events *events = sink;
  EventText event = BeginEvent(-1), session = {.used = 0};
  RengaCall(CreateEventFile(events));
  events->step = run->first;
  PutBytes(&event, EVENT_VERSION, sizeof version - 1, version);
  WriteEvent(events, &event);
  if (run->first == 0 || !events->file) return RENGA_SUCCESS;
  event = BeginEvent(run->first);
  PutField(&session, SESSION_STATUS, WIRE_VARINT);
  PutVarint(&session, SESSION_START);
  PutBytes(&event, EVENT_SESSION, session.used, session.bytes);
  WriteEvent(events, &event);
  return RENGA_SUCCESS;
}

static void AddStepEvent(void *sink, const RengaTrainerRow *row)
{
  Events *events = sink;
  const EventScalar scalars[] = {{"training/loss", row->loss},
                                 {"training/learning_rate", row->learning_rate},
                                 {"training/gradient_norm", row->gradient_norm},
                                 {"training/samples_per_second", AppRowRate(row)},
                                 {"training/skipped_steps", (double)row->skipped}};
  events->step = row->step;
  if (events->file)
    WriteScalars(events, sizeof scalars / sizeof scalars[0], scalars);
  else
    events->missing++;
}

static void AddValidationEvent(void *sink, const AppValidation *validation)
{
  Events *events = sink;
  int count = 0;
  EventScalar scalars[3];
  if (!events->file) return;
  events->step = validation->done - 1;
  scalars[count++] = (EventScalar){"validation/loss", validation->loss};
  if (validation->perplexity > 0)
    scalars[count++] = (EventScalar){"validation/perplexity", validation->perplexity};
  if (validation->accuracy >= 0)
    scalars[count++] = (EventScalar){"validation/accuracy", validation->accuracy};
  WriteScalars(events, count, scalars);
}

static RengaErrorCode CloseEvents(void **sink, bool goes_on)
{
  Events *events = *sink;
  const bool whole = !events->file || fclose(events->file) == 0;
  if (!whole)
    RengaWarning(MPI_COMM_SELF, "-monitor tensorboard:%s: %s: %s", events->folder,
                 events->file_name, RengaFileReason_Private(errno));
  const RengaErrorCode code = whole || goes_on ? RENGA_SUCCESS : RENGA_ERR_FILE_WRITE;
  const RengaErrorCode missing =
      AppSayMissing("tensorboard", events->folder, events->missing, "steps", goes_on);
  RengaFree(&events->folder);
  RengaFree(&events->file_name);
  RengaFree(sink);
  return missing ? missing : code;
}

const AppMonitorKind AppTensorboardKind = {
    "tensorboard", "DIR", OpenEvents, BeginEvents, AddStepEvent, AddValidationEvent, CloseEvents};
