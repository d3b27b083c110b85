/* Networks of convolutions for lanes of rows, as ONNX files. */
#include "networks.h"
#include "../onnx/text.h"
#include <math.h>

/* " : " and so many numbers. */
static void Draw(int count, char **end)
{
  *end += sprintf(*end, " :");
  for (int i = 1; i <= count; i++) *end += sprintf(*end, " %.2f", 0.8 * sin(i * i * 0.7));
}

/* "%[18]" stands for so many numbers. */
static RengaErrorCode Write(const char *file, const char *text)
{
  char whole[8192], *end = whole;
  for (const char *c = text; *c; c++) {
    if (*c != '%') {
      *end++ = *c;
      continue;
    }
    Draw((int)strtol(c + 1, (char **)&c, 10), &end);
    c--;
  }
  *end = '\0';
  Message *model = NewModelOf(18, whole);
  const RengaErrorCode code = WriteMessage(model, file);
  MessageFree(model);
  return code;
}

/* f, 4 rows of 2 channels, becomes i, 9 rows. */
static RengaErrorCode WriteUNet(const char *file, const char *up)
{
  char text[2048];
  snprintf(text, sizeof text,
           "in x f32 N 1 9 4; in labels i64 N 9 4; out loss; init v f32 2 1 3 3%%18; "
           "Conv x v -> a pads=1,1,1,1; init g f32 2 : 1 1; init h f32 2 : 0 0; "
           "InstanceNormalization a g h -> b; Relu b -> c; "
           "MaxPool c -> d kernel_shape=2,2 strides=2,2; init w f32 2 2 3 3%%36; "
           "Conv d w -> e pads=1,1,1,1; Relu e -> f; %s; Concat c i -> j axis=1; "
           "init z f32 2 2 3 3%%36; Conv j z -> k pads=1,1,1,1 group=2; Relu k -> l; "
           "init u f32 4 2 1 1%%8; Conv l u -> m; SoftmaxCrossEntropyLoss m labels -> loss",
           up);
  return Write(file, text);
}

/* Rows in another order; with index 4 there is one too few. */
static RengaErrorCode WriteShuffled(const char *file, const char *rows)
{
  char text[1024];
  snprintf(text, sizeof text,
           "in x f32 N 1 4 4; in labels i64 N 4 4; out loss; init v f32 2 1 3 3%%18; "
           "Conv x v -> a pads=1,1,1,1; Relu a -> b; init r i64 4 : %s; "
           "Gather b r -> c axis=2; init w f32 4 2 1 3%%24; Conv c w -> m pads=0,1,0,1; "
           "SoftmaxCrossEntropyLoss m labels -> loss",
           rows);
  return Write(file, text);
}

RengaErrorCode WriteNetworks(void)
{
  RengaCall(WriteUNet("lanes-unet.onnx", "init y f32 2 2 2 2%16; "
                                         "ConvTranspose f y -> i strides=2,2 output_padding=1,0"));
  RengaCall(
      WriteUNet("lanes-nearest.onnx", "init s f32 4 : 1 1 2.25 2; Resize f - s -> i mode=nearest"));
  RengaCall(
      WriteUNet("lanes-linear.onnx", "init s f32 4 : 1 1 2.25 2; Resize f - s -> i mode=linear"));
  RengaCall(WriteShuffled("lanes-rows.onnx", "3 0 2 1"));
  RengaCall(WriteShuffled("lanes-few.onnx", "3 0 2 4"));
  return RENGA_SUCCESS;
}

void RemoveNetworks(void)
{
  static const char *const files[] = {"lanes-unet.onnx", "lanes-nearest.onnx", "lanes-linear.onnx",
                                      "lanes-rows.onnx", "lanes-few.onnx"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) remove(files[i]);
}

const char *NetworksFolder(void)
{
  static char folder[1024];
  const char *source = getenv("top_srcdir");
  snprintf(folder, sizeof folder, "%s/test/reference/networks", source ? source : "..");
  return folder;
}
