/* RoiAlign: until opset 15 without the half pixel, since then with it unless the node says. */
#include "onnx.h"

RengaErrorCode RengaOnnxConvertRoiAlign(RengaOnnxNode *node)
{
  const char *usual = node->opset >= 16 ? "half_pixel" : "output_half_pixel";
  const char *name = "coordinate_transformation_mode";
  const bool half = RengaOnnxString(node, name, "half_pixel", usual);
  RengaValue in[3], y;
  RengaOnnxCheck(half || RengaOnnxString(node, name, "output_half_pixel", usual), node,
                 RENGA_ERR_FILE_FORMAT, "%s must be half_pixel or output_half_pixel", name);
  for (int i = 0; i < 3; i++) {
    RengaCall(RengaOnnxInputValue(node, i, &in[i]));
    RengaOnnxCheck(in[i] != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input %d is missing",
                   i);
  }
  RengaCall(RengaOnnxCopyAttributes(node, name));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "half_pixel", half));
  RengaCall(RengaOnnxEmit(node, "RoiAlign", 3, in, 1, NULL, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}
