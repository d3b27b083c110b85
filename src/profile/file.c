/* Costs from a text file, whoever found them: a simulator, another machine, renga profile
   -profile_save. The form, with numbers in seconds and # before remarks:

     renga-profile 1
     update 2.1e-10              of a parameter
     accumulate 9.7e-11          of a parameter
     samples 4
     1.3e-3 2.6e-3 block0.linear forward, backward, name of the node; one line for each node
     …
     samples 8
     …
     end

   For other micro-batches costs follow a line between those of the neighbouring sizes, and are
   proportional to the size outside of them. */
#include "names.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIZES = 64 };

typedef struct {
  int64_t samples;
  RengaProfileCost *costs; /* [nodes] */
} SizeRow;

typedef struct {
  char *file;
  int n_sizes;
  SizeRow size[MOST_SIZES]; /* ascending */
  double update, accumulate;
  bool ready;
} ProfileFile;

typedef struct {
  RengaProfile profile;
  ProfileFile *file;
  ProfileNames names;
  int line;
  bool *seen; /* [nodes] in this size */
} ProfileReader;

#define FileCheck(condition, reader, ...)                                                          \
  do {                                                                                             \
    if (!(condition)) return RefuseLine(reader, __LINE__, __VA_ARGS__);                            \
  } while (0)

static RengaErrorCode RefuseLine(const ProfileReader *reader, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static RengaErrorCode RefuseLine(const ProfileReader *reader, int line, const char *format, ...)
{
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(text, sizeof text, format, arguments);
  va_end(arguments);
  return RengaErrorRaise(reader->profile->hdr.comm, RENGA_ERR_FILE_FORMAT, __func__, __FILE__, line,
                         "%s, line %d: %s", reader->file->file, reader->line, text);
}

/* Every node of the network has had its line. */
static RengaErrorCode EndSize(ProfileReader *reader)
{
  const int count = reader->names.count;
  int missing = 0, first = -1;
  if (reader->file->n_sizes == 0) return RENGA_SUCCESS;
  for (int n = 0; n < count; n++) {
    if (reader->seen[n]) continue;
    if (first < 0) first = n;
    missing++;
  }
  FileCheck(missing == 0, reader,
            "%d of %d nodes of the network have no cost for %lld samples: %s%s", missing, count,
            (long long)reader->file->size[reader->file->n_sizes - 1].samples,
            reader->names.of_node[first], missing > 1 ? ", …" : "");
  memset(reader->seen, 0, (size_t)count * sizeof *reader->seen);
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginSize(ProfileReader *reader, const char *text)
{
  ProfileFile *file = reader->file;
  char *end;
  const long long samples = strtoll(text, &end, 10);
  RengaCall(EndSize(reader));
  FileCheck(end != text && *end == '\0' && samples > 0, reader,
            "\"samples %s\": a number of samples is wanted", text);
  FileCheck(file->n_sizes < MOST_SIZES, reader, "more than %d sizes", MOST_SIZES);
  FileCheck(file->n_sizes == 0 || file->size[file->n_sizes - 1].samples < samples, reader,
            "samples %lld come after %lld: sizes must rise", samples,
            (long long)file->size[file->n_sizes - 1].samples);
  RengaCall(RengaMalloc(reader->names.count + 1, &file->size[file->n_sizes].costs));
  file->size[file->n_sizes++].samples = samples;
  return RENGA_SUCCESS;
}

static bool IsCost(double value)
{
  return value >= 0 && value < 1e9;
}

static RengaErrorCode TakeNode(ProfileReader *reader, const char *text)
{
  char *end, *next;
  const double forward = RengaReadReal(text, &end), backward = RengaReadReal(end, &next);
  FileCheck(end != text && next != end && (*next == ' ' || *next == '\t'), reader,
            "\"%.80s\" is no line of seconds forward, seconds backward, name of a node", text);
  FileCheck(IsCost(forward) && IsCost(backward), reader,
            "seconds %g forward, %g backward must be from 0 to 1e9", forward, backward);
  FileCheck(reader->file->n_sizes > 0, reader, "a node comes before the first \"samples\"");
  const char *name = next + strspn(next, " \t"), *closest;
  const int node = RengaProfileNamesFind_Private(&reader->names, name, &closest);
  FileCheck(node >= 0, reader, "the network has no node \"%s\"%s%s%s", name,
            closest ? "; did you mean \"" : "", closest ? closest : "", closest ? "\"?" : "");
  FileCheck(!reader->seen[node], reader, "node \"%s\" is there twice", name);
  reader->seen[node] = true;
  reader->file->size[reader->file->n_sizes - 1].costs[node] = (RengaProfileCost){forward, backward};
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeNumber(ProfileReader *reader, const char *text, double *value)
{
  char *end;
  *value = RengaReadReal(text, &end);
  FileCheck(end != text && *end == '\0' && IsCost(*value), reader, "\"%s\" is no number of seconds",
            text);
  return RENGA_SUCCESS;
}

static bool TakeProfileWord(const char **line, const char *word)
{
  const size_t length = strlen(word);
  if (strncmp(*line, word, length) != 0 || (*line)[length] != ' ') return false;
  *line += length + strspn(*line + length, " ");
  return true;
}

static RengaErrorCode TakeLine(ProfileReader *reader, const char *line, bool *ended)
{
  if (*line == '#' || *line == '\0') return RENGA_SUCCESS;
  FileCheck(!*ended, reader, "something comes after \"end\"");
  if (strcmp(line, "end") == 0) {
    *ended = true;
    RengaCall(EndSize(reader));
  } else if (TakeProfileWord(&line, "update")) {
    RengaCall(TakeNumber(reader, line, &reader->file->update));
  } else if (TakeProfileWord(&line, "accumulate")) {
    RengaCall(TakeNumber(reader, line, &reader->file->accumulate));
  } else if (TakeProfileWord(&line, "samples")) {
    RengaCall(BeginSize(reader, line));
  } else {
    RengaCall(TakeNode(reader, line));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeText(ProfileReader *reader, char *text)
{
  bool ended = false;
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = '\0';
    line[strcspn(line, "\r")] = '\0';
    if (reader->line++ == 0)
      FileCheck(strcmp(line, "renga-profile 1") == 0, reader,
                "\"%.40s\": the file must begin with \"renga-profile 1\"", line);
    else
      RengaCall(TakeLine(reader, line, &ended));
  }
  FileCheck(ended, reader, "the file ends before its line \"end\"");
  FileCheck(reader->file->n_sizes > 0, reader, "no \"samples\": the file has no costs");
  return RENGA_SUCCESS;
}

/* Rank 0 reads; text NULL where it could not. */
static RengaErrorCode ReadProfileText(const char *name, char **text, int64_t *bytes)
{
  FILE *stream = RengaFileOpen_Private(name, "r");
  size_t got = 0;
  RengaCheck(stream, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "-profile_file %s: %s", name,
             RengaFileReason_Private(errno));
  RengaErrorCode code = RENGA_SUCCESS;
  for (*bytes = 0; code == RENGA_SUCCESS; *bytes += (int64_t)got) {
    code = RengaRealloc(*bytes + 65537, text);
    if (code == RENGA_SUCCESS) got = fread(*text + *bytes, 1, 65536, stream);
    if (got == 0) break;
  }
  const bool failed = ferror(stream) != 0;
  fclose(stream);
  RengaCall(code);
  RengaCheck(!failed && !memchr(*text, '\0', (size_t)*bytes), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "-profile_file %s is no text", name);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShareProfileText(RengaProfile profile, const char *name, char **text)
{
  const char *what = "costs that rank 0 reads";
  int64_t bytes = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  const bool first = RengaCommGetRank(profile->hdr.owner) == 0;
  if (first) code = ReadProfileText(name, text, &bytes);
  RengaCall(RengaErrorAgree(profile->hdr.comm, code));
  RengaCall(RengaCommBroadcast(profile->hdr.owner, &bytes, sizeof bytes, 0, what));
  if (!first) RengaCall(RengaMalloc(bytes + 1, text));
  RengaCall(RengaCommBroadcast(profile->hdr.owner, *text, (size_t)bytes, 0, what));
  return RENGA_SUCCESS;
}

static void ForgetSizes(ProfileFile *file)
{
  for (int s = 0; s < file->n_sizes; s++) RengaFree(&file->size[s].costs);
  file->n_sizes = 0;
  file->ready = false;
}

static RengaErrorCode ReadProfile(RengaProfile profile)
{
  ProfileFile *file = profile->data;
  ProfileReader reader = {.profile = profile, .file = file};
  char *text = NULL;
  if (file->ready && file->n_sizes > 0) return RENGA_SUCCESS;
  RengaCheck(file->file, profile->hdr.comm, RENGA_ERR_ORDER,
             "a profile of type file needs -profile_file");
  ForgetSizes(file);
  RengaErrorCode code = ShareProfileText(profile, file->file, &text);
  if (code == RENGA_SUCCESS) code = RengaProfileNamesCreate_Private(profile->graph, &reader.names);
  if (code == RENGA_SUCCESS) code = RengaMalloc(reader.names.count + 1, &reader.seen);
  if (code == RENGA_SUCCESS) code = TakeText(&reader, text);
  file->ready = code == RENGA_SUCCESS;
  RengaFree(&text);
  RengaFree(&reader.seen);
  RengaProfileNamesFree_Private(&reader.names);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* a, b and the share of b that make the cost of that many samples. */
static RengaErrorCode Costs_File(RengaProfile profile, int64_t samples, RengaProfileCost costs[])
{
  RengaCall(ReadProfile(profile));
  const ProfileFile *file = profile->data;
  int above = 0;
  while (above < file->n_sizes - 1 && file->size[above].samples < samples) above++;
  const SizeRow *b = &file->size[above], *a = above > 0 ? b - 1 : b;
  const bool between = samples >= a->samples && samples <= b->samples && a != b;
  const SizeRow *nearest = samples < b->samples ? a : b;
  const double share =
      between ? (double)(samples - a->samples) / (double)(b->samples - a->samples) : 0;
  const double scale = (double)samples / (double)nearest->samples;
  for (int n = 0; n < RengaGraphGetNodeCount(profile->graph); n++) {
    const RengaProfileCost *x = &a->costs[n], *y = &b->costs[n], *z = &nearest->costs[n];
    costs[n].forward =
        between ? x->forward + share * (y->forward - x->forward) : scale * z->forward;
    costs[n].backward =
        between ? x->backward + share * (y->backward - x->backward) : scale * z->backward;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PerParameter(RengaProfile profile, bool update, int64_t parameters,
                                   double *seconds)
{
  RengaCheck(profile->graph, profile->hdr.comm, RENGA_ERR_ORDER,
             "the profile has no network: call RengaProfileSetGraph first");
  RengaCall(ReadProfile(profile));
  const ProfileFile *file = profile->data;
  *seconds = (double)parameters * (update ? file->update : file->accumulate);
  return RENGA_SUCCESS;
}

static RengaErrorCode Update_File(RengaProfile profile, int64_t parameters, double *seconds)
{
  RengaCall(PerParameter(profile, true, parameters, seconds));
  return RENGA_SUCCESS;
}

static RengaErrorCode Accumulate_File(RengaProfile profile, int64_t parameters, double *seconds)
{
  RengaCall(PerParameter(profile, false, parameters, seconds));
  return RENGA_SUCCESS;
}

static RengaErrorCode Machine_File(RengaProfile profile, RengaMachine *machine)
{
  RengaCheck(profile->machine, profile->hdr.comm, RENGA_ERR_ORDER,
             "costs from a file need a machine for memory and links: give -machine_file");
  *machine = profile->machine;
  return RENGA_SUCCESS;
}

static RengaErrorCode SetFromOptions_File(RengaProfile profile)
{
  ProfileFile *file = profile->data;
  const char *name;
  bool given = false;
  RengaCall(RengaOptionsGetString("profile_file", &name, &given));
  if (!given) return RENGA_SUCCESS;
  ForgetSizes(file);
  RengaFree(&file->file);
  RengaCall(RengaStringCopy(name, &file->file));
  return RENGA_SUCCESS;
}

static RengaErrorCode Forget_File(RengaProfile profile)
{
  ForgetSizes(profile->data);
  return RENGA_SUCCESS;
}

static RengaErrorCode View_File(RengaProfile profile, RengaViewer viewer)
{
  const ProfileFile *file = profile->data;
  RengaCall(RengaViewerPrintf(viewer, "  costs of %s for", file->file ? file->file : "no file"));
  for (int s = 0; s < file->n_sizes; s++)
    RengaCall(RengaViewerPrintf(viewer, "%s %lld", s ? "," : "", (long long)file->size[s].samples));
  RengaCall(RengaViewerPrintf(viewer, " samples\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode Destroy_File(RengaProfile profile)
{
  ProfileFile *file = profile->data;
  ForgetSizes(file);
  RengaFree(&file->file);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileCreate_File(void *object)
{
  RengaProfile profile = object;
  ProfileFile *file = NULL;
  RengaCall(RengaMalloc(1, &file));
  profile->data = file;
  profile->ops->setfromoptions = SetFromOptions_File;
  profile->ops->costs = Costs_File;
  profile->ops->update = Update_File;
  profile->ops->accumulate = Accumulate_File;
  profile->ops->machine = Machine_File;
  profile->ops->forget = Forget_File;
  profile->ops->view = View_File;
  profile->ops->destroy = Destroy_File;
  return RENGA_SUCCESS;
}
