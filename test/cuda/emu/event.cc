/* Events, and graphs: what streams queue between the begin and the end of a capture. */
#include "emu.h"
#include <atomic>

/* Operations keep it after the event is recorded again, maybe in another stream, or destroyed. */
struct EmuRecord {
  bool done = false;
  double time = 0;
};
struct CUevent_st {
  std::shared_ptr<EmuRecord> last;   /* NULL: it was never recorded */
  std::shared_ptr<EmuGraph> capture; /* recorded in it: who waits for the event joins it */
  bool timed = true;
  int number = 0; /* from 1 on */
};
struct CUgraph_st {
  std::shared_ptr<EmuGraph> graph;
};
struct CUgraphExec_st {
  std::shared_ptr<EmuGraph> graph;
};

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
  EmuStart();
  static std::atomic<int> created;
  *event = new CUevent_st;
  (*event)->timed = !(flags & cudaEventDisableTiming);
  (*event)->number = ++created;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  delete event;
  return cudaSuccess;
}

/* A captured graph runs in the order of its capture, and so needs no record of its own. */
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  EmuStart();
  std::unique_lock<std::mutex> hold(emu_lock);
  const CUstream_st *s = EmuFindStream(stream);
  if (!s) return EmuSetError(cudaErrorInvalidResourceHandle);
  event->capture = s->capture;
  if (event->capture) return cudaSuccess;
  auto record = event->last = std::make_shared<EmuRecord>();
  hold.unlock();
  const std::string name = "cudaEventRecord of event " + std::to_string(event->number);
  return EmuQueue(stream, name, [=] {
    std::unique_lock<std::mutex> own(emu_lock);
    record->done = true;
    record->time = EmuNow();
    emu_idle.notify_all();
    return true;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
  EmuStart();
  std::unique_lock<std::mutex> hold(emu_lock);
  CUstream_st *s = EmuFindStream(stream);
  if (!s) return EmuSetError(cudaErrorInvalidResourceHandle);
  if (event->capture) {
    s->capture = event->capture;
    return cudaSuccess;
  }
  if (s->capture) {
    s->capture->invalid = true; /* it would wait for what is no part of the graph */
    return EmuSetError(cudaErrorStreamCaptureIsolation);
  }
  auto record = event->last;
  const bool waits = record && !record->done; /* in sync mode: for other processes */
  hold.unlock();
  if (!record) return cudaSuccess;
  return EmuQueue(
      stream, "cudaStreamWaitEvent for event " + std::to_string(event->number),
      [=] {
        std::unique_lock<std::mutex> own(emu_lock);
        return record->done;
      },
      waits);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  if (EmuFault()) return EmuFault();
  if (EmuIsCapturing()) return EmuRefuseCapture();
  EmuSayHost("asks for", "event", event->number);
  return !event->last || event->last->done ? cudaSuccess : EmuSetError(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  if (EmuIsCapturing()) return EmuRefuseCapture();
  EmuSayHost("waits for", "event", event->number);
  auto record = event->last;
  emu_idle.wait(hold, [&] { return !record || record->done || EmuFault(); });
  return EmuFault();
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  for (const auto *e : {from, to}) {
    if (!e->last || !e->timed) return EmuSetError(cudaErrorInvalidResourceHandle);
    if (!e->last->done) return EmuSetError(cudaErrorNotReady);
  }
  *milliseconds = (float)((to->last->time - from->last->time) * 1e3);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  CUstream_st *s = EmuFindStream(stream);
  if (!s) return EmuSetError(cudaErrorInvalidResourceHandle);
  if (!stream || s->capture || EmuFails("begin"))
    return EmuSetError(cudaErrorStreamCaptureUnsupported);
  s->capture = std::make_shared<EmuGraph>();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  CUstream_st *s = EmuFindStream(stream);
  if (!s || !s->capture) return EmuSetError(cudaErrorIllegalState);
  auto made = s->capture;
  EmuEndCapture(made);
  *graph = nullptr;
  if (made->invalid) return EmuSetError(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st{made};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  const CUstream_st *s = EmuFindStream(stream);
  if (!s) return EmuSetError(cudaErrorInvalidResourceHandle);
  *status = s->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
  *exec = new CUgraphExec_st{graph->graph};
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
  delete exec;
  return cudaSuccess;
}

/* Memory that was there when it was captured may be gone. */
static void CheckMemory(const EmuGraph &graph)
{
  for (const auto &operation : graph.operations)
    for (const void *p : operation.pointers)
      if (!EmuIsDevice(p, 0) && !EmuIsPinned(p, 1))
        EmuFail("a graph's %s: the memory at %p was freed since it was captured",
                operation.name.c_str(), p);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
  auto graph = exec->graph;
  CheckMemory(*graph);
  auto at = std::make_shared<size_t>(0);
  return EmuQueue(stream, "a graph", [=] {
    for (; *at < graph->operations.size(); ++*at) {
      const EmuOperation &operation = graph->operations[*at];
      EmuSayRunning("a graph's " + operation.name);
      if (!operation.step()) return false;
    }
    *at = 0;
    return true;
  });
}
}
