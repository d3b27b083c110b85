/* Copies between strided arrays of one shape, and memory that is filled. */
#include "kernel.h"

struct alignas(16) Sixteen {
  uint64_t half[2];
};

/* Elements in the order of `to` where that is dense, so that writes are neighbours. */
template <class T, class Index>
__global__ void MoveKernel(RengaCudaMove s, const void *from_, void *to_)
{
  const T *from = (const T *)from_ + s.from_offset;
  T *to = (T *)to_ + s.to_offset;
  RENGA_EACH(i, s.count)
  {
    Index rest = (Index)i;
    int64_t source = 0, target = 0;
    for (int d = s.dimensions - 1; d >= 0; d--) {
      const Index index = rest % (Index)s.extent[d];
      rest /= (Index)s.extent[d];
      source += (int64_t)index * s.from[d];
      target += (int64_t)index * s.to[d];
    }
    to[target] = from[source];
  }
}

template <class T> __global__ void FillKernel(uint64_t bits, int64_t count, void *to)
{
  RENGA_EACH(i, count)((T *)to)[i] = (T)bits;
}

typedef void (*MoveFunction)(RengaCudaMove, const void *, void *);
template <class Index> static MoveFunction MoveOf(int size)
{
  return size == 1   ? MoveKernel<uint8_t, Index>
         : size == 2 ? MoveKernel<uint16_t, Index>
         : size == 4 ? MoveKernel<uint32_t, Index>
         : size == 8 ? MoveKernel<uint64_t, Index>
                     : MoveKernel<Sixteen, Index>;
}

static bool MayJoin(const RengaCudaMove *s, int64_t unit, const void *from, const void *to)
{
  const int last = s->dimensions - 1;
  bool may = last >= 0 && s->from[last] == 1 && s->to[last] == 1 && s->extent[last] % unit == 0 &&
             s->from_offset % unit == 0 && s->to_offset % unit == 0 &&
             (uintptr_t)from % (size_t)(unit * s->size) == 0 &&
             (uintptr_t)to % (size_t)(unit * s->size) == 0;
  for (int d = 0; d < last; d++) may = may && s->from[d] % unit == 0 && s->to[d] % unit == 0;
  return may;
}

/* Neighbours that are neighbours on both sides are one element, of up to 16 bytes. */
static RengaCudaMove Joined(const RengaCudaMove *move, const void *from, const void *to)
{
  RengaCudaMove s = *move;
  int64_t unit = 16 / s.size;
  while (unit > 1 && !MayJoin(move, unit, from, to)) unit /= 2;
  if (unit <= 1) return s;
  const int last = s.dimensions - 1;
  for (int d = 0; d < last; d++) {
    s.from[d] /= unit;
    s.to[d] /= unit;
  }
  s.size *= (int)unit;
  s.extent[last] /= unit;
  s.from_offset /= unit;
  s.to_offset /= unit;
  s.count /= unit;
  return s;
}

int RengaCudaMoveElements(void *stream, const RengaCudaMove *move, const void *from, void *to)
{
  const RengaCudaMove s = Joined(move, from, to);
  const MoveFunction kernel =
      s.count <= INT32_MAX ? MoveOf<uint32_t>(s.size) : MoveOf<uint64_t>(s.size);
  if (s.count == 0) return 0;
  return RengaCudaSayError("MoveKernel", RENGA_LAUNCH(kernel, BlocksFor(s.count), THREADS, 0,
                                                      (cudaStream_t)stream, s, from, to));
}

int RengaCudaFill(void *stream, int size, uint64_t bits, int64_t count, void *to)
{
  typedef void (*Kernel)(uint64_t, int64_t, void *);
  const Kernel kernel = size == 1   ? FillKernel<uint8_t>
                        : size == 2 ? FillKernel<uint16_t>
                        : size == 4 ? FillKernel<uint32_t>
                                    : FillKernel<uint64_t>;
  if (count == 0) return 0;
  return RengaCudaSayError("FillKernel", RENGA_LAUNCH(kernel, BlocksFor(count), THREADS, 0,
                                                      (cudaStream_t)stream, bits, count, to));
}
