/* ONNX models from one line of text each, for tables of networks that are right or wrong. */
#pragma once
#include "write.h"

/* Parts are separated by ';', words by blanks:
     in x f32 N 4        input; a dimension is a number, a name, or ? for one without either
     init w f32 6 2      initializer of zeros; init s i64 2 : 3 8 gives its values
     out y               output
     Op a b -> y z k=1   node; attributes k=1 int, k=1.5 float, k=1, or k=1,2 ints, k=word string;
                         "-" is an absent input
   and for what PyTorch's newer exporter leaves in properties:
     Op … call=name:t.default(%a,%p_w,2)   the call of torch.ops.aten that the node was made of,
                                           where ~ is a blank
     Op … scope=a.b                        the module whose forward wrote the node
     Op … type=Norm                        the class of that module
     Op … line=y=(1+self.weight)           its line in Python, with ~ for a blank
     param a.weight p_a_weight             a parameter and its name in calls; so is buffer
     changed a.mean add                    a buffer that is add in the next step: behind the others
     folded val_1 a.weight,val_0           initializers and values that val_1 was folded from
   Types: f32 f64 f16 bf16 i32 i64 bool str c64, or a number of onnx.proto. A part that is not
   understood ends the program. */
Message *NewModelOf(int64_t opset, const char *text);
