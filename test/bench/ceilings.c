/* Products by oneDNN (its sgemm, its matmul with the right factor packed before), by the BLAS that
   Renga is linked with, and by others that the loader finds: BLIS, MKL, AOCL, ArmPL. */
#include "ceilings.h"
#include <cblas.h>
#include <dlfcn.h>
#include <dnnl.h>
#include <omp.h>
#include <string.h>
#include <time.h>

typedef void (*Sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

typedef struct {
  const BenchProduct *shape;
  const float *a, *b; /* also read as bfloat16 */
  float *c;
  Sgemm sgemm;
  dnnl_stream_t stream;
  dnnl_primitive_t primitive;
  dnnl_memory_t memory[3];
} Products;

typedef struct {
  const char *name, *file;
  Sgemm sgemm;
} Library;
static Library libraries[] = {
    {"BLIS", "libblis.so.4", NULL},
    {"MKL", "libmkl_rt.so.2", NULL},
    {"AOCL", "libblis-mt.so", NULL},
    {"ArmPL", "libarmpl_lp64.so", NULL},
};
enum { N_LIBRARIES = sizeof libraries / sizeof *libraries };

double BenchClock(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Each with its own symbols, beside the BLAS that is linked. */
static void OpenLibraries(void)
{
  static bool open = false;
  for (int l = 0; l < N_LIBRARIES && !open; l++) {
    void *handle = dlopen(libraries[l].file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    void *symbol = handle ? dlsym(handle, "cblas_sgemm") : NULL;
    memcpy(&libraries[l].sgemm, &symbol, sizeof symbol);
  }
  open = true;
}

void BenchPrintLibraries(void)
{
  OpenLibraries();
  RengaPrintf(MPI_COMM_WORLD, "products of: oneDNN, BLAS (linked)");
  for (int l = 0; l < N_LIBRARIES; l++)
    if (libraries[l].sgemm) RengaPrintf(MPI_COMM_WORLD, ", %s", libraries[l].name);
  RengaPrintf(MPI_COMM_WORLD, "\n");
}

static int64_t LdaOf(const BenchProduct *s)
{
  return s->trans_a ? s->m : s->k;
}

static int64_t LdbOf(const BenchProduct *s)
{
  return s->trans_b ? s->k : s->n;
}

static void RunDnnSgemm(Products *p)
{
  const BenchProduct *s = p->shape;
  dnnl_sgemm(s->trans_a ? 'T' : 'N', s->trans_b ? 'T' : 'N', s->m, s->n, s->k, 1, p->a, LdaOf(s),
             p->b, LdbOf(s), 0, p->c, s->n);
}

static void RunBlas(Products *p)
{
  const BenchProduct *s = p->shape;
  cblas_sgemm(CblasRowMajor, s->trans_a ? CblasTrans : CblasNoTrans,
              s->trans_b ? CblasTrans : CblasNoTrans, (int)s->m, (int)s->n, (int)s->k, 1, p->a,
              (int)LdaOf(s), p->b, (int)LdbOf(s), 0, p->c, (int)s->n);
}

static void RunLibrary(Products *p)
{
  const BenchProduct *s = p->shape;
  p->sgemm(CblasRowMajor, s->trans_a ? CblasTrans : CblasNoTrans,
           s->trans_b ? CblasTrans : CblasNoTrans, (int)s->m, (int)s->n, (int)s->k, 1, p->a,
           (int)LdaOf(s), p->b, (int)LdbOf(s), 0, p->c, (int)s->n);
}

static void RunPacked(Products *p)
{
  const dnnl_exec_arg_t args[] = {
      {DNNL_ARG_SRC, p->memory[0]}, {DNNL_ARG_WEIGHTS, p->memory[1]}, {DNNL_ARG_DST, p->memory[2]}};
  dnnl_primitive_execute(p->primitive, p->stream, 3, args);
}

/* The least of some rounds of runs that take a millisecond or more. */
static void Compete(Products *p, const char *name, void (*run)(Products *p), int rounds,
                    BenchBest *best)
{
  run(p);
  for (int round = 0; round < rounds; round++) {
    const double start = BenchClock();
    double spent = 0;
    int runs = 0;
    for (; spent < 1e-3; spent = BenchClock() - start, runs++) run(p);
    if (spent / runs < best->seconds) *best = (BenchBest){name, spent / runs};
  }
}

/* The right factor is in whatever layout is fastest; status of oneDNN. */
static dnnl_status_t CompetePacked(Products *p, dnnl_data_type_t type, const char *name, int rounds,
                                   BenchBest *best)
{
  const BenchProduct *s = p->shape;
  dnnl_dims_t a = {s->m, s->k}, b = {s->k, s->n}, c = {s->m, s->n};
  dnnl_memory_desc_t md[3];
  dnnl_matmul_desc_t wanted;
  dnnl_engine_t engine;
  dnnl_primitive_desc_t description = NULL;
  dnnl_memory_desc_init_by_tag(&md[0], 2, a, type, s->trans_a ? dnnl_ba : dnnl_ab);
  dnnl_memory_desc_init_by_tag(&md[1], 2, b, type, dnnl_format_tag_any);
  dnnl_memory_desc_init_by_tag(&md[2], 2, c, dnnl_f32, dnnl_ab);
  dnnl_matmul_desc_init(&wanted, &md[0], &md[1], NULL, &md[2]);
  dnnl_engine_create(&engine, dnnl_cpu, 0);
  const dnnl_status_t status =
      dnnl_primitive_desc_create(&description, &wanted, NULL, engine, NULL);
  if (status == dnnl_success) {
    const dnnl_memory_desc_t *packed =
        dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
    dnnl_stream_create(&p->stream, engine, dnnl_stream_default_flags);
    dnnl_primitive_create(&p->primitive, description);
    dnnl_memory_create(&p->memory[0], &md[0], engine, (void *)(uintptr_t)p->a);
    dnnl_memory_create(&p->memory[1], packed, engine, DNNL_MEMORY_ALLOCATE);
    dnnl_memory_create(&p->memory[2], &md[2], engine, p->c);
    void *data;
    dnnl_memory_get_data_handle(p->memory[1], &data);
    memset(data, 0, dnnl_memory_desc_get_size(packed));
    Compete(p, name, RunPacked, rounds, best);
    for (int i = 0; i < 3; i++) dnnl_memory_destroy(p->memory[i]);
    dnnl_primitive_destroy(p->primitive);
    dnnl_stream_destroy(p->stream);
    dnnl_primitive_desc_destroy(description);
  }
  dnnl_engine_destroy(engine);
  return status;
}

/* Small numbers, as float32 and as pairs of bfloat16. */
static RengaErrorCode MakeMatrix(int64_t count, float **matrix)
{
  RengaCall(RengaMalloc(count + 1, matrix));
  for (int64_t i = 0; i < count; i++) (*matrix)[i] = 0.5f + (float)(i % 7);
  return RENGA_SUCCESS;
}

RengaErrorCode BenchTimeProduct(const BenchProduct *s, bool low, int rounds, BenchBest *best)
{
  float *a = NULL, *b = NULL, *c = NULL;
  OpenLibraries();
  omp_set_num_threads(1);
  RengaCall(MakeMatrix(s->m * s->k, &a));
  RengaCall(MakeMatrix(s->k * s->n, &b));
  RengaCall(MakeMatrix(s->m * s->n, &c));
  Products products = {.shape = s, .a = a, .b = b, .c = c};
  *best = (BenchBest){"none", 1e30};
  Compete(&products, "oneDNN", RunDnnSgemm, rounds, best);
  Compete(&products, "BLAS", RunBlas, rounds, best);
  for (int l = 0; l < N_LIBRARIES; l++) {
    products.sgemm = libraries[l].sgemm;
    if (products.sgemm) Compete(&products, libraries[l].name, RunLibrary, rounds, best);
  }
  CompetePacked(&products, dnnl_f32, "oneDNN packed", rounds, best);
  if (low) CompetePacked(&products, dnnl_bf16, "oneDNN bf16 packed", rounds, best);
  RengaFree(&a);
  RengaFree(&b);
  RengaFree(&c);
  return RENGA_SUCCESS;
}

static float halves[2][1 << 24];

/* What a copy by the C library moves, or a pass that changes numbers where they are. */
static void Move(bool copies, size_t half)
{
  const size_t count = half / sizeof(float);
  if (copies) {
    memcpy(halves[0], halves[1], half);
    __asm__ volatile("" : : "r"(halves[0]) : "memory");
    return;
  }
  for (int i = 0; i < 2; i++) {
    float *y = halves[i];
#pragma omp simd
    for (size_t e = 0; e < count; e++) y[e] *= 0.5f;
  }
}

double BenchCopyRate(int64_t bytes)
{
  enum { LEAST = 1 << 20 }; /* bytes of a round */
  const size_t half = (size_t)bytes / 2;
  double rate = 0;
  for (int round = 0; round < 2; round++) {
    const bool copies = round % 2 == 0;
    Move(copies, half);
    const double start = BenchClock();
    int64_t moved = 0;
    for (; moved < LEAST; moved += (copies ? 2 : 4) * (int64_t)half) Move(copies, half);
    const double here = (double)moved / (BenchClock() - start);
    if (here > rate) rate = here;
  }
  return rate;
}
