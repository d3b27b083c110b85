/* Viewers: where an object is shown. "kind", "kind:file" or "file"; rank 0 writes. */
#include "renga/private/number.h"
#include "renga/private/object.h"
#include "renga/private/output.h"
#include "renga/private/path.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>

struct _RengaViewer {
  struct _p_RengaObject hdr;
  FILE *file;         /* rank 0 only */
  RengaOutput output; /* where it is a file */
  char *kind, *file_name;
};

static const char *const viewer_kinds[] = {"ascii", "dot", "json", "draw"};
enum { KINDS = sizeof viewer_kinds / sizeof viewer_kinds[0] };

static RengaErrorCode CloseViewer(RengaViewer viewer)
{
  const bool prints = viewer->file == stdout;
  viewer->file = NULL;
  if (prints) RengaCall(RengaPrintFlush());
  RengaCall(RengaOutputClose_Private(&viewer->output, RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyViewer(void *object)
{
  RengaViewer viewer = object;
  const RengaErrorCode code = CloseViewer(viewer);
  RengaFree(&viewer->kind);
  RengaFree(&viewer->file_name);
  RengaCall(RengaErrorAgree(viewer->hdr.comm, code));
  return RENGA_SUCCESS;
}

/* "dot:graph.dot" is kind and file; "dot" alone writes to standard output. */
static RengaErrorCode SplitSpecification(RengaViewer viewer, const char *specification)
{
  const char *colon = strchr(specification, ':');
  size_t length = colon ? (size_t)(colon - specification) : strlen(specification);
  if (length == 0) RengaCall(RengaStringCopy("ascii", &viewer->kind));
  for (int i = 0; i < KINDS && viewer->kind == NULL; i++)
    if (strlen(viewer_kinds[i]) == length && strncmp(specification, viewer_kinds[i], length) == 0)
      RengaCall(RengaStringCopy(viewer_kinds[i], &viewer->kind));
  RengaCheck(viewer->kind != NULL, viewer->hdr.comm, RENGA_ERR_ARGUMENT,
             "viewer \"%s\": write KIND or KIND:FILE, KIND one of ascii, dot, json, draw",
             specification);
  if (colon && colon[1]) RengaCall(RengaStringCopy(colon + 1, &viewer->file_name));
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenViewer(RengaViewer viewer)
{
  int rank;
  RengaCallMPI(MPI_Comm_rank(viewer->hdr.comm, &rank));
  if (rank == 0 && viewer->file_name)
    RengaCall(RengaOutputOpen_Private(viewer->file_name, &viewer->output));
  if (rank == 0) viewer->file = viewer->file_name ? viewer->output.stream : stdout;
  return RENGA_SUCCESS;
}

/*@
   RengaViewerCreate - a place to show objects

   Collective

   Input:
   . comm - its rank 0 writes
   . specification - "ascii", "dot", "json" or "draw", then ":FILE"; without it, standard output;
     NULL or "" is "ascii"

   Output:
   . viewer - RengaViewerDestroy frees it

   Errors: RENGA_ERR_ARGUMENT for a text that is not KIND or KIND:FILE; RENGA_ERR_FILE_WRITE where
   rank 0 cannot write there.

   Notes: a file that cannot be opened is an error on all ranks. It is there when the viewer is
   destroyed, and whole.

   See also: RengaViewerPrintf(), RengaViewerDestroy()
@*/
RengaErrorCode RengaViewerCreate(RengaComm comm, const char *specification, RengaViewer *viewer)
{
  RengaViewer made = NULL;
  MPI_Comm ranks;
  RengaCheckPointer(comm);
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code = RengaHeaderCreate(comm, "RengaViewer", sizeof *made, NULL, &made);
  code = RengaErrorAgree(ranks, code);
  if (code == RENGA_SUCCESS) {
    made->hdr.destroy = DestroyViewer; /* collective: not before all ranks have one */
    code = SplitSpecification(made, specification ? specification : "");
    if (code == RENGA_SUCCESS) code = OpenViewer(made);
    code = RengaErrorAgree(ranks, code);
  }
  if (code != RENGA_SUCCESS) RengaHeaderDestroy(&made);
  RengaCall(code);
  *viewer = made;
  return RENGA_SUCCESS;
}

/*@
   RengaViewerCheckFile - may a file of this name be written, or replaced?

   Input:
   . file - its name

   Errors: RENGA_ERR_FILE_WRITE where it cannot be, or where a folder, a device or a pipe has the
   name.

   Notes: for those who write only after hours of work. What is there stays.

   See also: RengaViewerCreate()
@*/
RengaErrorCode RengaViewerCheckFile(const char *file)
{
  RengaOutput output = {.stream = NULL};
  RengaCheckPointer(file);
  RengaCall(RengaPathCheckOutput_Private(file));
  RengaCall(RengaOutputOpen_Private(file, &output));
  (void)RengaOutputClose_Private(&output, RENGA_ERR_ORDER); /* not put in place */
  return RENGA_SUCCESS;
}

/*@
   RengaViewerPrintf - write text

   Input:
   . viewer - the place
   . format - a format, as of printf; ranks other than 0 write nothing

   Errors: RENGA_ERR_FILE_WRITE where the file does not take it.

   See also: RengaViewerCreate(), RengaPrintf()
@*/
RengaErrorCode RengaViewerPrintf(RengaViewer viewer, const char *format, ...)
{
  RengaCheckPointer(viewer);
  if (viewer->file == NULL) return RENGA_SUCCESS;
  va_list arguments;
  va_start(arguments, format);
  int written = RengaFilePrintList(viewer->file, format, arguments);
  va_end(arguments);
  if (written < 0 && viewer->file == stdout) RengaCall(RengaPrintFlush());
  RengaCheck(written >= 0 || viewer->file == stdout, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s",
             viewer->file_name, strerror(errno));
  return RENGA_SUCCESS;
}

/*@
   RengaViewerGetKind - how to show: "ascii", "dot", "json" or "draw"

   Input:
   . viewer - the place

   See also: RengaViewerCreate()
@*/
const char *RengaViewerGetKind(RengaViewer viewer)
{
  RengaCheckHandle(viewer, "");
  return viewer->kind;
}

/*@
   RengaViewerDestroy - close and free

   Collective

   Output:
   . viewer - set to NULL

   Notes: what could not be written is an error here at the latest, on all ranks.
@*/
RengaErrorCode RengaViewerDestroy(RengaViewer *viewer)
{
  RengaCheckPointer(viewer);
  RengaCall(RengaHeaderDestroy(viewer));
  return RENGA_SUCCESS;
}
