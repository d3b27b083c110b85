/* The cpu device: chooses the kernels for the instruction set of this machine. */
#include "config.h"
#include "cpu.h"
#include "onednn.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Best first. */
static const RengaCpuSet *const sets[] = {
#ifdef RENGA_HAVE_ISA_AVX512
    &RengaCpuSet_avx512,
#endif
#ifdef RENGA_HAVE_ISA_AVX2
    &RengaCpuSet_avx2,
#endif
    &RengaCpuSet_base,
};
enum { N_SETS = sizeof sets / sizeof *sets };

static bool MachineHas(const char *isa)
{
#if defined __x86_64__
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi2");
  if (strcmp(isa, "avx2") == 0) return avx2;
  if (strcmp(isa, "avx512") == 0)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#endif
  return strcmp(isa, "base") == 0;
}

/* Threads are ours, and each calls the BLAS for itself; OpenBLAS must not add its own. */
static void QuietBlas(void)
{
  void *symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  void (*set_threads)(int) = NULL;
  memcpy(&set_threads, &symbol, sizeof symbol);
  if (set_threads) set_threads(1);
}

/* By OpenBLAS's own functions, where it is that library; they stay mapped. */
static void MapBlasBuffers(int threads)
{
  enum { MOST = 64 };
  void *symbols[2] = {dlsym(RTLD_DEFAULT, "blas_memory_alloc"),
                      dlsym(RTLD_DEFAULT, "blas_memory_free")};
  void *(*take)(int) = NULL, *buffer[MOST];
  void (*give)(void *) = NULL;
  const int count = threads < MOST ? threads : MOST;
  memcpy(&take, &symbols[0], sizeof take);
  memcpy(&give, &symbols[1], sizeof give);
  for (int i = 0; take && give && i < count; i++) buffer[i] = take(0);
  for (int i = 0; take && give && i < count; i++) give(buffer[i]);
}

/* Where the address space is limited OpenBLAS, which maps a buffer for each thread at its first
   product, tries to map it for ever. Then the buffers are mapped here, as long as there is room. */
static RengaErrorCode ReserveForBlas(int threads)
{
  enum { BUFFER = 129 << 20 };
  struct rlimit limit;
  char bytes[32], needed[32];
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return RENGA_SUCCESS;
  const size_t room = (size_t)threads * BUFFER;
  void *mapped = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RengaFormatBytes((double)limit.rlim_cur, sizeof bytes, bytes);
  RengaFormatBytes((double)room, sizeof needed, needed);
  RengaCheck(mapped != MAP_FAILED, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "the address space of this process is limited to %s (ulimit -v), and matrix products "
             "of %d threads need %s more of it: raise the limit, or give fewer -device_threads",
             bytes, threads, needed);
  munmap(mapped, room);
  MapBlasBuffers(threads);
  return RENGA_SUCCESS;
}

/* Products of bfloat16 are those of amx.c, where the processor has AMX. */
static bool MayOwnAmx(const RengaCpuSet *set)
{
#ifdef RENGA_HAVE_ISA_AMX
  return strcmp(set->name, "avx512") == 0;
#else
  (void)set;
  return false;
#endif
}

static RengaErrorCode SetUp_Cpu(RengaDevice device)
{
  QuietBlas();
  RengaCall(ReserveForBlas(device->threads));
  const char *wanted = device->options.isa;
  bool any = strcmp(wanted, "auto") == 0;
  for (int i = 0; i < N_SETS; i++) {
    if (!MachineHas(sets[i]->name) || !(any || strcmp(sets[i]->name, wanted) == 0)) continue;
    if (!MayOwnAmx(sets[i])) RengaDnnLeaveAmx();
    device->data = (void *)sets[i];
    device->kernels = sets[i]->name;
    return RENGA_SUCCESS;
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-device_isa %s: this machine or this build does not have it; use auto", wanted);
}

/* What OpenBLAS says of itself; of another library the file that has its products. */
static void NameBlas(size_t size, char text[])
{
  void *symbol = dlsym(RTLD_DEFAULT, "openblas_get_config");
  char *(*get_config)(void) = NULL, *path = NULL;
  Dl_info info;
  memcpy(&get_config, &symbol, sizeof symbol);
  symbol = dlsym(RTLD_DEFAULT, "cblas_sgemm");
  if (!get_config && symbol && dladdr(symbol, &info)) path = realpath(info.dli_fname, NULL);
  const char *slash = path ? strrchr(path, '/') : NULL;
  snprintf(text, size, "%s", get_config ? get_config() : slash ? slash + 1 : "unknown BLAS");
  free(path); /* of realpath */
}

/* Whether products of bfloat16 are those of amx.c. */
static bool HasOwnAmx(const RengaCpuSet *set)
{
  return MayOwnAmx(set) && RengaDnnHasAmx();
}

static RengaErrorCode Describe_Cpu(RengaDevice device, size_t size, char text[])
{
  const RengaCpuSet *set = device->data;
  char convolutions[64], products[256];
  RengaConvolutionLibrary(sizeof convolutions, convolutions);
  NameBlas(sizeof products, products);
  snprintf(text, size, "%s%s, %s, %s", set->name, HasOwnAmx(set) ? " with amx" : "", convolutions,
           products);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindKernel_Cpu(RengaDevice device, const char *name,
                                     const RengaKernelRow **row)
{
  const RengaCpuSet *set = device->data;
  *row = set->find(name);
  return RENGA_SUCCESS;
}

static RengaErrorCode Convert_Cpu(RengaDevice device, RengaStream stream, int64_t count,
                                  RengaDataType from, const void *x, RengaDataType to, void *y)
{
  const RengaCpuSet *set = device->data;
  set->convert(device->threads, count, from, x, to, y);
  return RENGA_SUCCESS;
}

static RengaErrorCode Round_Cpu(RengaDevice device, RengaStream stream,
                                const RengaRounding *rounding)
{
  const RengaCpuSet *set = device->data;
  set->round(device->threads, rounding);
  return RENGA_SUCCESS;
}

static RengaErrorCode Add_Cpu(RengaDevice device, RengaStream stream, int64_t count, float y[],
                              const float x[])
{
  const RengaCpuSet *set = device->data;
  set->add(device->threads, count, y, x);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumsOfSquares_Cpu(RengaDevice device, RengaStream stream, int count,
                                        const RengaVector x[], double squares[])
{
  const RengaCpuSet *set = device->data;
  set->sumsofsquares(device->threads, count, x, squares);
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateSgd_Cpu(RengaDevice device, RengaStream stream,
                                    const RengaSgdStep *step, double scale, int count,
                                    const RengaParameterUpdate updates[])
{
  const RengaCpuSet *set = device->data;
  set->updatesgd(device->threads, step, scale, count, updates);
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateAdam_Cpu(RengaDevice device, RengaStream stream,
                                     const RengaAdamStep *step, double scale, int count,
                                     const RengaParameterUpdate updates[])
{
  const RengaCpuSet *set = device->data;
  set->updateadam(device->threads, step, scale, count, updates);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumRows_Cpu(RengaDevice device, RengaStream stream, const RengaRowsTask *sum,
                                  double *square)
{
  const RengaCpuSet *set = device->data;
  set->sumrows(device->threads, sum, square);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceCreate_Cpu(void *object)
{
  RengaDevice device = object;
  RengaCall(RengaDeviceSetHost_Private(device));
  device->ops->setup = SetUp_Cpu;
  device->ops->describe = Describe_Cpu;
  device->ops->findkernel = FindKernel_Cpu;
  device->ops->convert = Convert_Cpu;
  device->ops->round = Round_Cpu;
  device->precisions = 1U << RENGA_PRECISION_FP8;
  device->ops->add = Add_Cpu;
  device->ops->sumsofsquares = SumsOfSquares_Cpu;
  device->ops->updatesgd = UpdateSgd_Cpu;
  device->ops->updateadam = UpdateAdam_Cpu;
  device->ops->sumrows = SumRows_Cpu;
  return RENGA_SUCCESS;
}
