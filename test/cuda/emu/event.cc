/* Events, and graphs: what streams queue between the begin and the end of a capture. */
#include "emu.h"

/* Operations keep it after the event is destroyed. */
struct EmuEventState {
  uint64_t recorded = 0, done = 0;
  double time = 0;
};
struct CUevent_st {
  std::shared_ptr<EmuEventState> state = std::make_shared<EmuEventState>();
  std::shared_ptr<EmuGraph> capture; /* recorded in it: who waits for the event joins it */
  bool timed = true;
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
  *event = new CUevent_st;
  (*event)->timed = !(flags & cudaEventDisableTiming);
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
  auto state = event->state;
  const uint64_t number = ++state->recorded;
  hold.unlock();
  return EmuQueue(stream, "cudaEventRecord", [=] {
    std::unique_lock<std::mutex> own(emu_lock);
    if (number > state->done) {
      state->done = number;
      state->time = EmuNow();
    }
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
  auto state = event->state;
  const uint64_t number = state->recorded;
  const bool waits = state->done < number; /* in sync mode: for other processes */
  hold.unlock();
  if (number == 0) return cudaSuccess;
  return EmuQueue(
      stream, "cudaStreamWaitEvent",
      [=] {
        std::unique_lock<std::mutex> own(emu_lock);
        return state->done >= number;
      },
      waits);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  if (EmuFault()) return EmuFault();
  if (EmuIsCapturing()) return EmuRefuseCapture();
  EmuSayWait();
  return event->state->done >= event->state->recorded ? cudaSuccess
                                                      : EmuSetError(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  if (EmuIsCapturing()) return EmuRefuseCapture();
  EmuSayWait();
  auto state = event->state;
  const uint64_t number = state->recorded;
  emu_idle.wait(hold, [&] { return state->done >= number || EmuFault(); });
  return EmuFault();
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  for (const auto *e : {from, to}) {
    if (e->state->recorded == 0 || !e->timed) return EmuSetError(cudaErrorInvalidResourceHandle);
    if (e->state->done < e->state->recorded) return EmuSetError(cudaErrorNotReady);
  }
  *milliseconds = (float)((to->state->time - from->state->time) * 1e3);
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
