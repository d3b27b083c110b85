/* Elementwise operators of several inputs that broadcast. */
#include "renga/private/op.h"

static RengaErrorCode ShapeBroadcast(RengaOpCall *call)
{
  RengaTensorSpec *y = &call->out[0];
  RengaOpCopyShape(y, &call->in[0]);
  for (int i = 1; i < call->n_in; i++) RengaCall(RengaOpBroadcast(call, &call->in[i], y));
  return RENGA_SUCCESS;
}

static RengaErrorCode Mod(RengaOpCall *call)
{
  bool floating = RengaDataTypeIsFloating(call->in[0].type);
  RengaOpCheckValue(!floating || RengaOpCallInt(call, "fmod"), call,
                    "floating numbers need attribute fmod 1");
  return ShapeBroadcast(call);
}

static RengaErrorCode BitShift(RengaOpCall *call)
{
  const char *direction = RengaOpCallString(call, "direction");
  RengaOpCheckValue(direction[0] == 'L' || direction[0] == 'R', call,
                    "direction is \"%s\", must be LEFT or RIGHT", direction);
  return ShapeBroadcast(call);
}

/* The slope broadcasts to x, never the other way. */
static RengaErrorCode ShapePRelu(RengaOpCall *call)
{
  RengaTensorSpec *y = &call->out[0];
  RengaOpCopyShape(y, &call->in[0]);
  RengaCall(RengaOpBroadcast(call, &call->in[1], y));
  RengaOpCheck(RengaOpSameShape(y, &call->in[0]), call, "the slope is wider than the input");
  return RENGA_SUCCESS;
}

static double EightFlopsEach(const RengaOpCall *call)
{
  return 8.0 * (double)RengaTensorSpecCount(&call->out[0]);
}

#define EACH RENGA_OP_ELEMENTWISE
#define BINARY(name, types)                                                                        \
  {                                                                                                \
    name, 2, 2, 1, 1, EACH, ShapeBroadcast, NULL, NULL, types, NULL                                \
  }

const RengaOperator RengaOperatorsBinary[] = {
    BINARY("Add", "NN>N"),
    BINARY("Sub", "NN>N"),
    BINARY("Mul", "NN>N"),
    BINARY("Div", "NN>N"),
    BINARY("Min", "NN>N"),
    {"Max", 2, 2, 1, 1, EACH, ShapeBroadcast, NULL, "flat:int=0", "NN>N", NULL},
    {"Pow", 2, 2, 1, 1, EACH, ShapeBroadcast, EightFlopsEach, "flat:int=0", "NM>N", NULL},
    {"Mod", 2, 2, 1, 1, EACH, Mod, NULL, "fmod:int=0", "NN>N", NULL},
    BINARY("Equal", "TT>B"),
    BINARY("Less", "NN>B"),
    BINARY("Greater", "NN>B"),
    BINARY("LessOrEqual", "NN>B"),
    BINARY("GreaterOrEqual", "NN>B"),
    BINARY("And", "BB>B"),
    BINARY("Or", "BB>B"),
    BINARY("Xor", "BB>B"),
    BINARY("BitwiseAnd", "ZZ>Z"),
    BINARY("BitwiseOr", "ZZ>Z"),
    BINARY("BitwiseXor", "ZZ>Z"),
    {"BitShift", 2, 2, 1, 1, EACH, BitShift, NULL, "direction:string", "ZZ>Z", NULL},
    {"PRelu", 2, 2, 1, 1, EACH, ShapePRelu, NULL, NULL, "NN>N", NULL},
    {"Where", 3, 3, 1, 1, EACH, ShapeBroadcast, NULL, NULL, "BTT>T", NULL},
    {0},
};
