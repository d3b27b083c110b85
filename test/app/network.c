/* network FILE OPSET TEXT: writes an ONNX model of one line of text (test/onnx/text.h). */
#include "../onnx/text.h"
#include <stdio.h>
#include <stdlib.h>

int main(int n, char **words)
{
  if (n != 4) {
    fprintf(stderr, "usage: network FILE OPSET TEXT\n");
    return EXIT_FAILURE;
  }
  Message *model = NewModelOf(strtoll(words[2], NULL, 10), words[3]);
  const RengaErrorCode code = WriteMessage(model, words[1]);
  MessageFree(model);
  return code ? EXIT_FAILURE : EXIT_SUCCESS;
}
