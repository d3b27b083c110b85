#include "reader.h"
#include "../check.h"
#include "renga.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Programs that run side by side have files of their own; all ranks read that of their own. */
static char file_name[64];

static void RemoveFile(void)
{
  remove(file_name);
}

static const char *FileName(void)
{
  if (!file_name[0]) atexit(RemoveFile);
  snprintf(file_name, sizeof file_name, "onnx-read-%ld.onnx", (long)getpid());
  return file_name;
}

RengaErrorCode ReadModel(RengaComm comm, Message *model, const char *trained, const char *frozen,
                         RengaGraph *graph, const char **text)
{
  FILE *file;
  RengaCall(WriteMessage(model, FileName()));
  MessageFree(model);
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphSetTrained(*graph, trained));
  RengaCall(RengaGraphSetFrozen(*graph, frozen));
  int saved = BeginErrors(&file);
  RengaErrorCode code = RengaGraphLoad(*graph, FileName());
  if (code == RENGA_SUCCESS) code = RengaGraphSetUp(*graph);
  *text = EndErrors(file, saved);
  if (code != RENGA_SUCCESS) fprintf(stderr, "%s", *text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

char KindOf(RengaGraph graph, const char *name)
{
  const RengaGraphValue *value = RengaGraphGetValue(graph, RengaGraphFindValue(graph, name));
  if (value && value->kind == RENGA_VALUE_PARAMETER) return value->frozen ? 'f' : 't';
  return value && value->kind == RENGA_VALUE_STATE ? 's' : 'c';
}

RengaErrorCode ReadOnly(RengaComm comm, Message *model, const char *trained)
{
  RengaGraph graph = NULL;
  RengaCall(WriteMessage(model, FileName()));
  MessageFree(model);
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphSetTrained(graph, trained));
  RengaErrorCode code = RengaGraphLoad(graph, FileName());
  if (code == RENGA_SUCCESS) code = RengaGraphSetUp(graph);
  RengaGraphDestroy(&graph);
  return code;
}

RengaErrorCode CheckUses(RengaComm comm, Message *model, const char *names)
{
  RengaGraph graph;
  const char *text;
  char found[16] = "";
  int count;
  const RengaParameterUse *uses;
  RengaCall(ReadModel(comm, model, NULL, NULL, &graph, &text));
  RengaCall(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL));
  RengaCall(RengaGraphGetParameterUses(graph, &count, &uses));
  for (int i = 0; i < count; i++) found[i] = RengaGraphGetValue(graph, uses[i].parameter)->name[0];
  RengaCheck(strcmp(found, names) == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "gradients of %s, not %s", found, names);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}
