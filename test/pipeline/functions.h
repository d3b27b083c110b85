/* A file whose network is made of functions that call each other. */
#pragma once
#include "../onnx/write.h"

enum { FLOAT = 1, INT64 = 7 };

/* A function of the file: its name, inputs, outputs and body. */
static void AddFunction(Message *model, const char *name, const char *const in[], int n_in,
                        Message *const body[], int n_body)
{
  Message *function = MessageNew(), *import = MessageNew(), *local = MessageNew();
  PutText(function, 1, name);
  PutText(function, 10, "local");
  for (int i = 0; i < n_in; i++) PutText(function, 4, in[i]);
  PutText(function, 5, "y");
  for (int i = 0; i < n_body; i++) PutMessage(function, 7, body[i]);
  PutNumber(import, 2, 17);
  PutMessage(function, 9, import);
  PutText(local, 1, "local");
  PutNumber(local, 2, 1);
  PutMessage(function, 9, local);
  PutMessage(model, 25, function);
}

static Message *NewCall(const char *function, const char *in, const char *out)
{
  Message *call = NewNode(function, in, out);
  PutText(call, 7, "local");
  return call;
}

/* Layer(x, w, b) = Tanh(Dense(x, w, b)), Dense(x, w, b) = x w + b; twice with the same w. */
static Message *NewFunctions(void)
{
  static const char *const in[] = {"x", "w", "b"};
  static const int64_t square[] = {6, 6}, row[] = {6};
  Message *graph = MessageNew(), *import = MessageNew();
  float w[36], b[6] = {0.1f, -0.1f, 0.2f, 0, 0, 0.3f};
  for (int i = 0; i < 36; i++) w[i] = (float)(i * 7 % 11 - 5) * 0.1f;
  AddInput(graph, "x", FLOAT, 2, square, "N");
  AddInput(graph, "labels", INT64, 1, row, "N");
  AddInitializer(graph, "outer.0.weight", FLOAT, 2, square, w, sizeof w);
  AddInitializer(graph, "outer.0.bias", FLOAT, 1, row, b, sizeof b);
  AddInitializer(graph, "outer.1.weight", FLOAT, 2, square, w, sizeof w);
  AddNode(graph, NewCall("Layer", "x outer.0.weight outer.0.bias", "h"));
  AddNode(graph, NewCall("Layer", "h outer.1.weight outer.0.bias", "i"));
  AddNode(graph, NewCall("Layer", "i outer.0.weight outer.0.bias", "j"));
  AddNode(graph, NewCall("Dense", "j outer.1.weight outer.0.bias", "scores"));
  AddOperator(graph, "SoftmaxCrossEntropyLoss", "scores labels", "loss");
  AddOutput(graph, "loss");
  AddOutput(graph, "scores");
  Message *model = NewModel(graph, 17);
  Message *layer[] = {NewCall("Dense", "x w b", "h"), NewNode("Tanh", "h", "y")};
  Message *dense[] = {NewNode("MatMul", "x w", "h"), NewNode("Add", "h b", "y")};
  AddFunction(model, "Layer", in, 3, layer, 2);
  AddFunction(model, "Dense", in, 3, dense, 2);
  PutText(import, 1, "local");
  PutNumber(import, 2, 1);
  PutMessage(model, 8, import);
  return model;
}
