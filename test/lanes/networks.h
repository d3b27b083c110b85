/* Networks of convolutions for lanes of rows, as ONNX files of the working folder: lanes-unet.onnx,
   lanes-nearest.onnx, lanes-linear.onnx, lanes-rows.onnx, and lanes-few.onnx, which looks up a row
   that there is not. */
#pragma once
#include "../check.h"

RengaErrorCode WriteNetworks(void);
void RemoveNetworks(void);
/* Where the exports of torch are that the repository has. */
const char *NetworksFolder(void);
