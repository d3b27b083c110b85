/* Streams: queues of operations that one thread, the device, takes in an order that a seed draws.
   It prefers now this stream, now that, and pauses, so that an order that no event demands is not
   kept. */
#include "emu.h"
#include <algorithm>
#include <cstdio>
#include <set>
#include <thread>
#include <unistd.h>

std::mutex emu_lock;
std::condition_variable emu_idle;
static std::condition_variable wake;
static std::set<CUstream_st *> streams;
static CUstream_st null_stream;
static std::thread *device;
static uint64_t next_number = 1, random_state;
static bool stopping;
static std::string running;

bool EmuIsDeviceThread()
{
  return device && std::this_thread::get_id() == device->get_id();
}

void EmuSayRunning(const std::string &name)
{
  running = name;
}

const char *EmuRunning()
{
  return running.c_str();
}

/* What was given to a queue of the hardware before, by another stream, comes first. */
static bool IsBehind(const CUstream_st *s, uint64_t number)
{
  if (EmuGetSettings().queues == 0) return false;
  return std::any_of(streams.begin(), streams.end(), [=](const auto *o) {
    return o != s && o->lane == s->lane && !o->queue.empty() && o->queue.front().number < number;
  });
}

/* The NULL stream waits for all blocking streams, and they for it, in the order of the calls. */
static bool MayRun(const CUstream_st *s)
{
  if (s->queue.empty()) return false;
  const uint64_t number = s->queue.front().number;
  if (IsBehind(s, number)) return false;
  if (s != &null_stream)
    return !s->blocking || null_stream.queue.empty() || null_stream.queue.front().number > number;
  for (const auto *o : streams)
    if (o != s && o->blocking && !o->queue.empty() && o->queue.front().number < number)
      return false;
  return true;
}

/* The favourite of those that may run; where some wait for others (polls), any. */
static CUstream_st *Choose(unsigned turn, unsigned polls, unsigned *able)
{
  std::vector<CUstream_st *> list;
  for (auto *s : streams)
    if (MayRun(s)) list.push_back(s);
  *able = (unsigned)list.size();
  if (list.empty()) return nullptr;
  if (polls) return list[EmuNextRandom(&random_state) % list.size()];
  if (!EmuGetSettings().sync && turn % 16 == 0)
    for (auto *s : streams) s->priority = EmuNextRandom(&random_state);
  return *std::max_element(list.begin(), list.end(),
                           [](const auto *a, const auto *b) { return a->priority < b->priority; });
}

/* One call of the operation at the front, which stays in its place while others are queued. */
static bool Step(std::unique_lock<std::mutex> &hold, CUstream_st *stream)
{
  const EmuSettings &settings = EmuGetSettings();
  EmuOperation *operation = &stream->queue.front();
  EmuSayRunning(operation->name);
  EmuOpenMemory(true);
  hold.unlock();
  if (!settings.sync && settings.delay && EmuNextRandom(&random_state) % 4 == 0)
    usleep((useconds_t)(EmuNextRandom(&random_state) % settings.delay));
  const bool done = EmuFault() || operation->step();
  hold.lock();
  if (done) stream->queue.pop_front();
  return done;
}

bool EmuWorks()
{
  return std::any_of(streams.begin(), streams.end(),
                     [](auto *s) { return !s->nccls && !s->queue.empty(); });
}

static bool IsIdle()
{
  return std::all_of(streams.begin(), streams.end(), [](auto *s) { return s->queue.empty(); });
}

static void DeviceMain()
{
  EmuWatchFaults();
  std::unique_lock<std::mutex> hold(emu_lock);
  for (unsigned turn = 0, polls = 0, able;; turn++) {
    CUstream_st *next = Choose(turn, polls, &able);
    if (!next) {
      EmuOpenMemory(false);
      emu_idle.notify_all();
      if (stopping) return;
      wake.wait(hold);
      continue;
    }
    if (Step(hold, next)) {
      polls = 0;
      if (EmuGetSettings().sync || IsIdle()) EmuOpenMemory(false);
      if (next->queue.empty()) emu_idle.notify_all();
    } else if (++polls > able) {
      hold.unlock();
      usleep(20);
      hold.lock();
    }
  }
}

static void Stop()
{
  {
    std::unique_lock<std::mutex> hold(emu_lock);
    stopping = true;
  }
  wake.notify_all();
  device->join();
}

void EmuStart()
{
  static std::once_flag once;
  std::call_once(once, [] {
    random_state = EmuGetSettings().seed * 0x9e3779b97f4a7c15ull + 1;
    for (int i = 0; i < 16; i++) EmuNextRandom(&random_state);
    EmuReserveMemory();
    EmuWatchFaults();
    streams.insert(&null_stream);
    std::unique_lock<std::mutex> hold(emu_lock);
    device = new std::thread(DeviceMain);
    atexit(Stop);
  });
}

CUstream_st *EmuFindStream(cudaStream_t stream)
{
  if (!stream || stream == cudaStreamLegacy) return &null_stream;
  return streams.count(stream) ? stream : nullptr;
}

void EmuWaitStream(std::unique_lock<std::mutex> &hold, const CUstream_st *stream)
{
  emu_idle.wait(hold, [&] { return stream->queue.empty(); });
}

void EmuWaitAll(std::unique_lock<std::mutex> &hold)
{
  emu_idle.wait(hold, IsIdle);
}

void EmuSayHost(const char *does, const char *what, int number)
{
  if (EmuGetSettings().trace)
    fprintf(stderr, "the host %s %s %d (rank %d)\n", does, what, number, EmuRank());
}

bool EmuIsCapturing()
{
  return std::any_of(streams.begin(), streams.end(), [](auto *s) { return s->capture; });
}

cudaError_t EmuRefuseCapture()
{
  cudaError_t code = cudaSuccess;
  for (auto *s : streams)
    if (s->capture) {
      s->capture->invalid = true;
      code = cudaErrorStreamCaptureUnsupported;
    }
  return EmuSetError(code);
}

static thread_local std::vector<const void *> noted;

void EmuNotePointer(const void *pointer)
{
  if (pointer) noted.push_back(pointer);
}

void EmuEndCapture(const std::shared_ptr<EmuGraph> &graph)
{
  for (auto *s : streams)
    if (s->capture == graph) s->capture = nullptr;
}

cudaError_t EmuQueue(cudaStream_t stream, std::string name, std::function<bool()> step, bool remote)
{
  EmuStart();
  const std::vector<const void *> pointers = std::move(noted);
  noted.clear();
  if (EmuIsDeviceThread()) EmuFail("%s is called by a host function of a stream", name.c_str());
  if (EmuFault()) return EmuFault();
  std::unique_lock<std::mutex> hold(emu_lock);
  CUstream_st *s = EmuFindStream(stream);
  if (!s) return EmuSetError(cudaErrorInvalidResourceHandle);
  if (s->capture) {
    if (s->capture->invalid) return EmuSetError(cudaErrorStreamCaptureInvalidated);
    if (EmuFails("capture")) return EmuRefuseCapture();
    s->capture->operations.push_back({name, step, 0, pointers});
    return cudaSuccess;
  }
  if (s == &null_stream && EmuIsCapturing()) return EmuSetError(cudaErrorStreamCaptureImplicit);
  const bool behind = !s->queue.empty(); /* in sync mode: what waits for other processes */
  if (EmuGetSettings().trace)
    fprintf(stderr, "queued: %s on stream %d (rank %d)\n", name.c_str(), s->number, EmuRank());
  s->queue.push_back({name, step, next_number++, {}});
  wake.notify_all();
  if (EmuGetSettings().sync && !remote && !behind) EmuWaitStream(hold, s);
  return cudaSuccess;
}

extern "C" {

enum { GREATEST_PRIORITY = -5 };

/* The queue of the hardware that fewest streams share. */
static int FindLane()
{
  std::vector<int> users((size_t)std::max(EmuGetSettings().queues, 1));
  for (const auto *s : streams) users[(size_t)s->lane]++;
  return (int)(std::min_element(users.begin(), users.end()) - users.begin());
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
  static int created;
  EmuStart();
  std::unique_lock<std::mutex> hold(emu_lock);
  *stream = new CUstream_st;
  (*stream)->blocking = !(flags & cudaStreamNonBlocking);
  (*stream)->number = ++created;
  (*stream)->lane = FindLane();
  streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
  *least = 0;
  *greatest = GREATEST_PRIORITY;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
  if (priority > 0 || priority < GREATEST_PRIORITY) return EmuSetError(cudaErrorInvalidValue);
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  std::unique_lock<std::mutex> hold(emu_lock);
  if (!stream || !streams.count(stream)) return EmuSetError(cudaErrorInvalidResourceHandle);
  EmuWaitStream(hold, stream);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  EmuStart();
  std::unique_lock<std::mutex> hold(emu_lock);
  const CUstream_st *s = EmuFindStream(stream);
  if (!s) return EmuSetError(cudaErrorInvalidResourceHandle);
  if (EmuIsCapturing()) return EmuRefuseCapture();
  EmuSayHost("waits for", "stream", s->number);
  EmuWaitStream(hold, s);
  return EmuFault();
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
  EmuStart();
  std::unique_lock<std::mutex> hold(emu_lock);
  const CUstream_st *s = EmuFindStream(stream);
  if (!s) return EmuSetError(cudaErrorInvalidResourceHandle);
  if (EmuIsCapturing()) return EmuRefuseCapture();
  return s->queue.empty() ? EmuFault() : EmuSetError(cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize(void)
{
  EmuStart();
  std::unique_lock<std::mutex> hold(emu_lock);
  if (EmuIsCapturing()) return EmuRefuseCapture();
  EmuWaitAll(hold);
  return EmuFault();
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
  return EmuQueue(stream, "a host function", [=] {
    function(data);
    return true;
  });
}
}
