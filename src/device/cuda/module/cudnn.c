/* cuDNN: the library is opened when it is asked for, so that the module opens where there is none;
   and its descriptors. */
#include "cudnn.h"
#include <stdio.h>
#include <string.h>

enum { LEAST_VERSION = 91000 };

#define MEMBER(name) __typeof__(&name) name;
static struct {
  RENGA_CUDNN_FUNCTIONS(MEMBER)
} cudnn;
void *RengaCudnnHandle, *RengaCudnnAsked;

#ifdef RENGA_NCCL_LINKED /* with the emulator, whose cuDNN is as new as it is told, or none */
#define TAKE(name) cudnn.name = name;
static int TakeCudnn(void)
{
  RENGA_CUDNN_FUNCTIONS(TAKE)
  return cudnn.cudnnGetVersion() ? 0 : RengaCudaSay("cuDNN", 1, "there is none");
}
#else
static const char cudnn_name[] = "libcudnn.so.9";

#define TAKE(name)                                                                                 \
  if (RengaCudaTake(library, cudnn_name, "it is older than cuDNN 9", #name, &cudnn.name)) return 1;
static int TakeCudnn(void)
{
  void *library = dlopen(cudnn_name, RTLD_NOW | RTLD_LOCAL);
  if (!library) return RengaCudaSay("cuDNN", 1, dlerror());
  RENGA_CUDNN_FUNCTIONS(TAKE)
  return 0;
}
#endif

static int SayCudnn(const char *what, int code)
{
  char text[200] = "";
  if (!code) return 0;
  cudnn.cudnnGetLastErrorString(text, sizeof text);
  text[strcspn(text, "\n")] = '\0';
  return RengaCudaSay(what, code, text[0] ? text : cudnn.cudnnGetErrorString(code));
}

int RengaCudnnFind(size_t size, char text[])
{
  if (TakeCudnn()) return 1;
  const size_t version = cudnn.cudnnGetVersion();
  snprintf(text, size, "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
  if (version < LEAST_VERSION) return RengaCudaSay(text, 1, "it is older than cuDNN 9.10");
  return RengaCudnnHandle ? 0 : SayCudnn("cudnnCreate", cudnn.cudnnCreate(&RengaCudnnHandle));
}

int RengaCudnnAskFor(size_t bytes, const char *properties)
{
  RengaCudnnGraph g = {.failed = TakeCudnn()};
  RengaCudnnAsked = RengaCudnnMake(&g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  RengaCudnnSet(&g, RengaCudnnAsked, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                (int64_t)bytes, properties);
  RengaCudnnFinish(&g, RengaCudnnAsked);
  return g.failed;
}

static void Fail_Cudnn(RengaCudnnGraph *g, const char *what, int code)
{
  if (code && !g->failed) g->failed = SayCudnn(what, code);
}

void *RengaCudnnMake(RengaCudnnGraph *g, int kind)
{
  void *made = NULL;
  if (!g->failed && g->n_made == RENGA_CUDNN_DESCRIPTORS)
    g->failed = RengaCudaSay("cuDNN", 1, "a graph of too many descriptors");
  if (!g->failed)
    Fail_Cudnn(g, "cudnnBackendCreateDescriptor", cudnn.cudnnBackendCreateDescriptor(kind, &made));
  if (made) g->made[g->n_made++] = made;
  return made;
}

void RengaCudnnSet(RengaCudnnGraph *g, void *descriptor, int name, int type, int64_t count,
                   const void *values)
{
  if (!g->failed)
    Fail_Cudnn(g, "cudnnBackendSetAttribute",
               cudnn.cudnnBackendSetAttribute(descriptor, name, type, count, values));
}

void RengaCudnnFinish(RengaCudnnGraph *g, void *descriptor)
{
  if (!g->failed) Fail_Cudnn(g, "cudnnBackendFinalize", cudnn.cudnnBackendFinalize(descriptor));
}

/* What is got is left as it was where it fails. Of more values than there is room for nobody knows
   the others, so that it fails, too. */
int64_t RengaCudnnGet(RengaCudnnGraph *g, void *descriptor, int name, int type, int64_t most,
                      void *values)
{
  int64_t count = 0;
  if (!g->failed)
    Fail_Cudnn(g, "cudnnBackendGetAttribute",
               cudnn.cudnnBackendGetAttribute(descriptor, name, type, most, &count, values));
  if (!g->failed && count < 0) count = 0;
  if (!g->failed && most > 0 && count > most)
    g->failed = RengaCudaSay("cuDNN", 1, "it has more values of an attribute than were foreseen");
  return g->failed ? 0 : count;
}

/* Gives back what was made since there were so many. */
void RengaCudnnUnmake(RengaCudnnGraph *g, int count)
{
  while (g->n_made > count) cudnn.cudnnBackendDestroyDescriptor(g->made[--g->n_made]);
}

void RengaCudnnExecute(RengaCudnnGraph *g, void *stream, void *plan, void *pack)
{
  if (!g->failed)
    Fail_Cudnn(g, "cudnnSetStream", cudnn.cudnnSetStream(RengaCudnnHandle, (cudaStream_t)stream));
  if (!g->failed)
    Fail_Cudnn(g, "cudnnBackendExecute", cudnn.cudnnBackendExecute(RengaCudnnHandle, plan, pack));
}
