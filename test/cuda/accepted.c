/* Which tasks the real cuDNN takes for a device that is not there: all that the cuda device would
   ask of it for the networks below, by the device's properties in a file. accepted.sh runs it. */
#include "../../src/device/cuda/module/cudnn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char said[256];
int RengaCudaSay(const char *what, int code, const char *text)
{
  if (code) snprintf(said, sizeof said, "%s: %s", what, text);
  return code;
}

static size_t limit = (size_t)1024 << 20; /* -device_cudnn_workspace */
static int failures;
enum { LITTLE = 4 << 20 }; /* a workspace without copies of images */

/* wanted: below 0, of attention itself alone */
static void Ask(const char *name, const RengaCudnnTask *task, int wanted)
{
  static const char *const kinds[] = {"forward", "input", "weight", "attention", "its gradient"};
  static const char *const types[] = {"fp32", "bf16", "fp16"};
  RengaCudnnChoice choice = {0};
  void *plan = malloc(RengaCudaCudnnTable.bytes);
  const int refused = RengaCudaCudnnTable.create(task, limit, &choice, plan) != 0;
  printf("%s, %s, %s%s%s: %s", name, kinds[task->kind], types[task->type],
         task->tf32 ? " as tf32" : "", task->last ? ", channels last" : "",
         refused ? "refused" : "accepted");
  if (refused)
    printf(", %s\n", said);
  else
    printf(", engine %lld, place %lld, workspace %.1f MiB\n", (long long)choice.engine,
           (long long)choice.place, (double)choice.workspace / 1048576);
  const int narrow = task->type != RENGA_CUDA_FLOAT32 || task->tf32;
  if (!refused && task->last && task->channels > 3 && narrow && choice.workspace > LITTLE) {
    printf("FAILED: the engine before copies images\n");
    failures++;
  }
  if (wanted < 0) wanted = task->kind == RENGA_CUDNN_ATTENTION;
  if (refused == wanted) {
    printf("FAILED: the task before should be %s\n", wanted ? "accepted" : "refused");
    failures++;
  }
  if (!refused) RengaCudaCudnnTable.destroy(plan);
  free(plan);
}

/* Queries, keys and values of one tensor [samples, rows, 3, heads, width], or of one each where
   keys have fewer heads. */
static void AskAttention(const char *name, const int64_t shape[6], int masked, int type, int wanted)
{
  const int64_t heads = shape[1], groups = shape[2], rows = shape[3], width = shape[4];
  const int packed = groups == heads;
  const int64_t q_row = packed ? 3 * heads * width : heads * width;
  const int64_t k_row = packed ? q_row : groups * width;
  RengaCudnnTask task = {.kind = RENGA_CUDNN_ATTENTION,
                         .type = type,
                         .samples = shape[0],
                         .heads = heads,
                         .queries = rows,
                         .keys = rows,
                         .width = width,
                         .values = width,
                         .causal = shape[5],
                         .masked = masked,
                         .mask_stride = {rows, 0, 0, 1},
                         .rows = {{0, rows * q_row, width, q_row, 1},
                                  {0, rows * k_row, width, k_row, heads / groups},
                                  {0, rows * k_row, width, k_row, heads / groups},
                                  {0, rows * heads * width, width, heads * width, 1}},
                         .scale = 1 / sqrt((double)width)};
  if (!masked) memset(task.mask_stride, 0, sizeof task.mask_stride);
  Ask(name, &task, wanted);
  task.kind = RENGA_CUDNN_ATTENTION_GRAD;
  Ask(name, &task, wanted);
}

/* images, channels, extent, out_channels, kernel, stride, padding, groups; of images whose channels
   come last engines need no copies of them, but for 3 channels. */
static void AskConvolution(const char *name, const int64_t s[8], int type, int tf32, int wanted)
{
  RengaCudnnTask task = {.type = type,
                         .tf32 = tf32,
                         .images = s[0],
                         .channels = s[1],
                         .out_channels = s[3],
                         .groups = s[7]};
  for (int d = 0; d < 2; d++) {
    task.in[d] = s[2];
    task.kernel[d] = s[4];
    task.stride[d] = s[5];
    task.dilation[d] = 1;
    task.before[d] = task.after[d] = s[6];
    task.out[d] = (s[2] + 2 * s[6] - s[4]) / s[5] + 1;
  }
  for (int kind = RENGA_CUDNN_FORWARD; kind <= RENGA_CUDNN_WEIGHT; kind++) {
    task.kind = kind;
    task.last = 0;
    Ask(name, &task, wanted);
    task.last = 1;
    Ask(name, &task, wanted);
  }
}

static void AskNetworks(void)
{
  static const struct {
    const char *name;
    int64_t shape[6];
    int masked;
  } attentions[] = {{"GPT-2 124M b16 s1024", {16, 12, 12, 1024, 64, 1}, 0},
                    {"GPT-2 350M b8 s1024", {8, 16, 16, 1024, 64, 1}, 0},
                    {"GPT-2 1.5B b4 s1024", {4, 25, 25, 1024, 64, 1}, 0},
                    {"BERT-large b16 s512", {16, 16, 16, 512, 64, 0}, 0},
                    {"BERT-large b16 s512 with padding", {16, 16, 16, 512, 64, 0}, 1},
                    {"ViT-B/16 b64", {64, 12, 12, 197, 64, 0}, 0},
                    {"Llama 8B b1 s2048", {1, 32, 8, 2048, 128, 1}, 0},
                    {"a sequence of 1000", {4, 12, 12, 1000, 64, 1}, 0}};
  static const int64_t images[][8] = {
      {64, 3, 224, 64, 7, 2, 3, 1},   {64, 64, 56, 64, 1, 1, 0, 1},
      {64, 64, 56, 64, 3, 1, 1, 1},   {64, 64, 56, 256, 1, 1, 0, 1},
      {64, 256, 56, 128, 1, 1, 0, 1}, {64, 128, 56, 128, 3, 2, 1, 1},
      {64, 128, 28, 128, 3, 1, 1, 1}, {64, 256, 14, 256, 3, 1, 1, 1},
      {64, 512, 7, 512, 3, 1, 1, 1},  {64, 512, 7, 2048, 1, 1, 0, 1},
  };
  static const int64_t patches[8] = {64, 3, 224, 768, 16, 16, 0, 1};
  for (int type = RENGA_CUDA_BFLOAT16; type <= RENGA_CUDA_FLOAT16; type++)
    for (size_t a = 0; a < sizeof attentions / sizeof *attentions; a++)
      AskAttention(attentions[a].name, attentions[a].shape, attentions[a].masked, type, 1);
  for (int type = RENGA_CUDA_FLOAT32; type <= RENGA_CUDA_FLOAT16; type++)
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
      AskConvolution("ResNet-50 b64", images[i], type, 0, 1);
  for (size_t i = 0; i < sizeof images / sizeof *images; i++)
    AskConvolution("ResNet-50 b64", images[i], RENGA_CUDA_FLOAT32, 1, 1);
  AskConvolution("ViT-B/16 b64", patches, RENGA_CUDA_BFLOAT16, 0, 1);
}

/* What cuDNN does not compute, or in more memory than it may have. */
static void AskOthers(void)
{
  static const int64_t odd[6] = {16, 12, 12, 1024, 36, 1}, plain[6] = {16, 12, 12, 1024, 64, 1};
  static const int64_t longest[6] = {1, 32, 32, 16384, 128, 1};
  AskAttention("heads of 36", odd, 0, RENGA_CUDA_BFLOAT16, 0);
  AskAttention("attention", plain, 0, RENGA_CUDA_FLOAT32, 0);
  limit = 0; /* forward needs none */
  AskAttention("a sequence of 16384", longest, 0, RENGA_CUDA_BFLOAT16, -1);
}

int main(int argc, char **argv)
{
  static char properties[4096];
  FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
  const size_t bytes = file ? fread(properties, 1, sizeof properties, file) : 0;
  if (file) fclose(file);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (bytes == 0 || RengaCudnnAskFor(bytes, properties)) {
    printf("no cuDNN: %s\n", bytes ? said : "no properties of a device");
    return 77;
  }
  AskNetworks();
  AskOthers();
  printf("%d failures\n", failures);
  return failures > 0;
}
