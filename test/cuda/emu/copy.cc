/* Copies: from pageable memory at once, from and to pinned memory as late as can be. */
#include "emu.h"
#include <cstring>
#include <list>
#include <unistd.h>

/* Pinned memory that copies from the device, queued and not done, are going to write. */
struct Target {
  const char *begin, *end;
};
static std::mutex targets_lock;
static std::list<Target> targets;

static bool IsTarget(const void *from, size_t bytes)
{
  const char *begin = (const char *)from;
  std::unique_lock<std::mutex> hold(targets_lock);
  for (const Target &t : targets)
    if (t.begin < begin + bytes && begin < t.end) return true;
  return false;
}

static uint64_t Hash(const void *data, size_t bytes)
{
  uint64_t hash = 1469598103934665603ull; /* FNV-1a */
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211ull;
  return hash;
}

static cudaMemcpyKind KindOf(bool to_device, bool from_device)
{
  if (from_device) return to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
  return to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost;
}

/* The source may change as soon as the call returns. */
static cudaError_t CopyFromPageable(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(stream, &status);
  if (code) return code;
  if (status != cudaStreamCaptureStatusNone) { /* a replay would find another source */
    std::unique_lock<std::mutex> hold(emu_lock);
    return EmuRefuseCapture();
  }
  auto staged = std::make_shared<std::string>((const char *)from, bytes);
  return EmuQueue(stream, "a copy from pageable memory of the host", [=] {
    memcpy(to, staged->data(), bytes);
    return true;
  });
}

/* A replayed graph may find another source than the captured one, and the device may write it, in
   the order of its streams. */
static cudaError_t CopyFromPinned(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const bool changes = IsTarget(from, bytes); /* before the device may be done with it */
  const uint64_t hash = changes ? 0 : Hash(from, bytes);
  const cudaError_t code = cudaStreamIsCapturing(stream, &status);
  if (code) return code;
  EmuNotePointer(to);
  EmuNotePointer(from);
  return EmuQueue(stream, "a copy from pinned memory of the host", [=] {
    const EmuSettings &settings = EmuGetSettings();
    if (!settings.sync && settings.delay) usleep(settings.delay / 2);
    if (status == cudaStreamCaptureStatusNone && !changes && Hash(from, bytes) != hash)
      EmuFail("the host changed the source %p of a copy before it was copied", from);
    memcpy(to, from, bytes);
    return true;
  });
}

/* To pinned memory; not while the stream is captured. */
static cudaError_t CopyToPinned(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
  std::unique_lock<std::mutex> hold(targets_lock);
  const auto target = targets.insert(targets.end(), {(const char *)to, (const char *)to + bytes});
  hold.unlock();
  const cudaError_t code = EmuQueue(stream, "a copy from the device", [=] {
    memmove(to, from, bytes);
    std::unique_lock<std::mutex> written(targets_lock);
    targets.erase(target);
    return true;
  });
  hold.lock();
  if (code) targets.erase(target);
  return code;
}

extern "C" {

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
  if (!bytes) return cudaSuccess;
  EmuStart();
  const cudaMemcpyKind is = KindOf(EmuIsDevice(to, bytes), EmuIsDevice(from, bytes));
  if (kind != cudaMemcpyDefault && kind != is) return EmuSetError(cudaErrorInvalidValue);
  if (is == cudaMemcpyHostToDevice && !EmuIsPinned(from, bytes))
    return CopyFromPageable(to, from, bytes, stream);
  if (is == cudaMemcpyHostToDevice) return CopyFromPinned(to, from, bytes, stream);
  EmuNotePointer(to);
  EmuNotePointer(from);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (is == cudaMemcpyDeviceToHost && EmuIsPinned(to, bytes) &&
      !cudaStreamIsCapturing(stream, &status) && status == cudaStreamCaptureStatusNone)
    return CopyToPinned(to, from, bytes, stream);
  const cudaError_t code = EmuQueue(stream, "a copy from the device", [=] {
    memmove(to, from, bytes);
    return true;
  });
  if (code || is != cudaMemcpyDeviceToHost || EmuIsPinned(to, bytes)) return code;
  return cudaStreamSynchronize(stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
  const cudaError_t code = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return code || kind == cudaMemcpyDeviceToDevice ? code : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
  if (!bytes) return cudaSuccess;
  EmuStart();
  if (!EmuIsDevice(to, bytes)) return EmuSetError(cudaErrorInvalidValue);
  EmuNotePointer(to);
  return EmuQueue(stream, "cudaMemsetAsync", [=] {
    memset(to, byte, bytes);
    return true;
  });
}

cudaError_t cudaMemset(void *to, int byte, size_t bytes)
{
  return cudaMemsetAsync(to, byte, bytes, nullptr);
}
}
