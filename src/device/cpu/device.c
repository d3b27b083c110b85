/* The cpu device: chooses the kernels for the instruction set of this machine. */
#include "config.h"
#include "cpu.h"
#include "onednn.h"
#include <dlfcn.h>
#include <string.h>

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

static RengaErrorCode SetUp_Cpu(RengaDevice device)
{
  QuietBlas();
  const char *wanted = device->options.isa;
  bool any = strcmp(wanted, "auto") == 0;
  for (int i = 0; i < N_SETS; i++) {
    if (!MachineHas(sets[i]->name) || !(any || strcmp(sets[i]->name, wanted) == 0)) continue;
    device->data = (void *)sets[i];
    device->kernels = sets[i]->name;
    return RENGA_SUCCESS;
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-device_isa %s: this machine or this build does not have it; use auto", wanted);
}

static RengaErrorCode View_Cpu(RengaDevice device, RengaViewer viewer)
{
  const RengaCpuSet *set = device->data;
  RengaCall(RengaViewerPrintf(viewer, "  instruction set %s\n", set->name));
  return RENGA_SUCCESS;
}

static RengaErrorCode Describe_Cpu(RengaDevice device, size_t size, char text[])
{
  const RengaCpuSet *set = device->data;
  void *symbol = dlsym(RTLD_DEFAULT, "openblas_get_config");
  char *(*get_config)(void) = NULL;
  char convolutions[64];
  memcpy(&get_config, &symbol, sizeof symbol);
  RengaConvolutionLibrary(sizeof convolutions, convolutions);
  snprintf(text, size, "%s, %s, %s", set->name, convolutions,
           get_config ? get_config() : "unknown BLAS");
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
  (void)stream;
  const RengaCpuSet *set = device->data;
  set->convert(device->threads, count, from, x, to, y);
  return RENGA_SUCCESS;
}

static RengaErrorCode Add_Cpu(RengaDevice device, RengaStream stream, int64_t count, float y[],
                              const float x[])
{
  (void)stream;
  const RengaCpuSet *set = device->data;
  set->add(device->threads, count, y, x);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumsOfSquares_Cpu(RengaDevice device, RengaStream stream, int count,
                                        const RengaVector x[], double squares[])
{
  (void)stream;
  const RengaCpuSet *set = device->data;
  set->sumsofsquares(device->threads, count, x, squares);
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateSgd_Cpu(RengaDevice device, RengaStream stream,
                                    const RengaSgdStep *step, double scale, int count,
                                    const RengaParameterUpdate updates[])
{
  (void)stream;
  const RengaCpuSet *set = device->data;
  set->updatesgd(device->threads, step, scale, count, updates);
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateAdam_Cpu(RengaDevice device, RengaStream stream,
                                     const RengaAdamStep *step, double scale, int count,
                                     const RengaParameterUpdate updates[])
{
  (void)stream;
  const RengaCpuSet *set = device->data;
  set->updateadam(device->threads, step, scale, count, updates);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumRows_Cpu(RengaDevice device, RengaStream stream, const RengaRowsTask *sum,
                                  double *square)
{
  (void)stream;
  const RengaCpuSet *set = device->data;
  set->sumrows(device->threads, sum, square);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceCreate_Cpu(void *object)
{
  RengaDevice device = object;
  RengaCall(RengaDeviceSetHost_Private(device));
  device->ops->setup = SetUp_Cpu;
  device->ops->view = View_Cpu;
  device->ops->describe = Describe_Cpu;
  device->ops->findkernel = FindKernel_Cpu;
  device->ops->convert = Convert_Cpu;
  device->ops->add = Add_Cpu;
  device->ops->sumsofsquares = SumsOfSquares_Cpu;
  device->ops->updatesgd = UpdateSgd_Cpu;
  device->ops->updateadam = UpdateAdam_Cpu;
  device->ops->sumrows = SumRows_Cpu;
  return RENGA_SUCCESS;
}
