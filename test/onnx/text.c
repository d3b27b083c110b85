/* One line of text to an ONNX model. */
#include "text.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 48, TEXT_MAX = 4096, ELEMENTS_MAX = 512, DIMS_MAX = 16 };
typedef struct {
  int count;
  char *word[WORDS_MAX];
} Words;

static void Expect(bool condition, const char *text)
{
  if (condition) return;
  fprintf(stderr, "the text of a network is wrong: %s\n", text);
  exit(1);
}

static const struct {
  const char *name;
  int onnx_type;
  size_t size;
} types[] = {{"f32", 1, 4}, {"f64", 11, 8}, {"f16", 10, 2}, {"bf16", 16, 2}, {"i32", 6, 4},
             {"i64", 7, 8}, {"bool", 9, 1}, {"str", 8, 1},  {"c64", 14, 8}};
enum { N_TYPES = sizeof types / sizeof types[0] };

static int TypeOf(const char *name, size_t *size)
{
  *size = 1;
  for (int i = 0; i < N_TYPES; i++)
    if (strcmp(types[i].name, name) == 0) {
      *size = types[i].size;
      return types[i].onnx_type;
    }
  return atoi(name);
}

static bool IsNumber(const char *word)
{
  return isdigit((unsigned char)word[word[0] == '-']) != 0;
}

/* in name type dimensions… */
static void PutInput(Message *graph, const Words *words)
{
  size_t size;
  Message *shape = MessageNew(), *tensor = MessageNew(), *type = MessageNew(), *info = MessageNew();
  for (int i = 3; i < words->count; i++) {
    Message *dimension = MessageNew();
    if (IsNumber(words->word[i]))
      PutNumber(dimension, 1, strtoll(words->word[i], NULL, 10));
    else if (strcmp(words->word[i], "?") != 0)
      PutText(dimension, 2, words->word[i]);
    PutMessage(shape, 1, dimension);
  }
  PutNumber(tensor, 1, TypeOf(words->word[2], &size));
  PutMessage(tensor, 2, shape);
  PutMessage(type, 1, tensor);
  PutText(info, 1, words->word[1]);
  PutMessage(info, 2, type);
  PutMessage(graph, 11, info);
}

static void PutValue(unsigned char *to, int onnx_type, const char *word)
{
  const double real = strtod(word, NULL);
  const float narrow = (float)real;
  const int64_t whole = strtoll(word, NULL, 10);
  const int32_t part = (int32_t)whole;
  const unsigned char byte = (unsigned char)whole;
  switch (onnx_type) {
  case 1:
    memcpy(to, &narrow, sizeof narrow);
    break;
  case 11:
    memcpy(to, &real, sizeof real);
    break;
  case 6:
    memcpy(to, &part, sizeof part);
    break;
  case 7:
    memcpy(to, &whole, sizeof whole);
    break;
  default:
    *to = byte;
  }
}

/* init name type dimensions… [: values…]; impossible dimensions have the data of one element */
static void PutInitializer(Message *graph, const Words *words, const char *text)
{
  unsigned char data[ELEMENTS_MAX * sizeof(double)] = {0};
  int64_t dim[DIMS_MAX], count = 1;
  size_t size;
  int type = TypeOf(words->word[2], &size), n = 0, at = 3;
  for (; at < words->count && strcmp(words->word[at], ":") != 0; at++) {
    dim[n++] = strtoll(words->word[at], NULL, 10);
    bool possible = count > 0 && dim[n - 1] >= 0 && dim[n - 1] <= ELEMENTS_MAX;
    count = possible ? count * dim[n - 1] : 1;
  }
  Expect(count <= ELEMENTS_MAX && words->count - at - 1 <= ELEMENTS_MAX, text);
  for (int i = 0; at + 1 < words->count; i++, at++)
    PutValue(data + (size_t)i * size, type, words->word[at + 1]);
  AddInitializer(graph, words->word[1], type, n, dim, data, (size_t)count * size);
}

enum { GRAPH_VALUE_INFO = 13, GRAPH_PROPERTY = 16, VALUE_PROPERTY = 4, NODE_PROPERTY = 9 };

/* param a.weight p_a_weight, buffer …: one line of the signature */
static void PutSigned(char signature[TEXT_MAX], const Words *words, const char *text)
{
  const char *kind = words->word[0][0] == 'p' ? "PARAMETER" : "BUFFER";
  size_t used = strlen(signature);
  Expect(words->count == 3, text);
  snprintf(signature + used, TEXT_MAX - used, "%s: %s target='%s'\n", words->word[2], kind,
           words->word[1]);
}

/* changed a.count add: the network makes add in its place */
static void PutChanged(char signature[TEXT_MAX], const Words *words, const char *text)
{
  size_t used = strlen(signature);
  Expect(words->count == 3, text);
  snprintf(signature + used, TEXT_MAX - used, "\n# outputs\n%s: BUFFER_MUTATION target='%s'\n",
           words->word[2], words->word[1]);
}

/* folded val_1 a.weight,val_0 */
static void PutFolded(Message *graph, const Words *words, const char *text)
{
  char from[TEXT_MAX] = "[", *rest = NULL;
  Message *info = MessageNew();
  Expect(words->count == 3, text);
  for (char *name = strtok_r(words->word[2], ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
    size_t used = strlen(from);
    snprintf(from + used, sizeof from - used, "%s'%.100s'", used > 1 ? ", " : "", name);
  }
  PutText(info, 1, words->word[1]);
  AddProperty(info, VALUE_PROPERTY, "pkg.onnxscript.optimizer.folded_from", strcat(from, "]"));
  PutMessage(graph, GRAPH_VALUE_INFO, info);
}

/* call=name:linear.default(%x,%p_w) */
static void PutCall(Message *node, const char *word)
{
  char text[TEXT_MAX];
  const char *colon = strchr(word, ':'), *open = strchr(word, '(');
  Expect(colon && open && colon < open, word);
  snprintf(text, sizeof text,
           "%%%.*s : [num_users=1] = call_function[target=torch.ops.aten.%.*s](args = %s, kwargs = "
           "{})",
           (int)(colon - word), word, (int)(open - colon - 1), colon + 1, open);
  for (char *at = text; *at; at++) *at = *at == '~' ? ' ' : *at;
  AddProperty(node, NODE_PROPERTY, "pkg.torch.onnx.fx_node", text);
}

/* scope=a.b, type=Norm, line=y~=~x*(1~+~self.weight) */
static void PutOrigin(Message *node, const char *word)
{
  char text[TEXT_MAX];
  const char *value = strchr(word, '=') + 1;
  const char *key = word[0] == 's'   ? "pkg.torch.onnx.name_scopes"
                    : word[0] == 't' ? "pkg.torch.onnx.class_hierarchy"
                                     : "pkg.torch.onnx.stack_trace";
  if (word[0] == 'l')
    snprintf(text, sizeof text, "  File \"net.py\", line 5, in forward\n    %s\n", value);
  else
    snprintf(text, sizeof text, "['', '%s', 'value']", value);
  for (char *at = text; *at; at++) *at = *at == '~' ? ' ' : *at;
  AddProperty(node, NODE_PROPERTY, key, text);
}

/* key=1 int, 1.5 float, 1,2 ints, else string */
static void PutAttribute(Message *node, const char *word)
{
  enum { INT = 2, REAL = 1, STRING = 3, INTS = 7 };
  Message *attribute = MessageNew();
  const char *value = strchr(word, '=') + 1;
  bool number = IsNumber(value) && !strpbrk(value, "->");
  int type = value[0] == '-' || number ? INT : STRING;
  if (type == INT && strchr(value, '.')) type = REAL;
  if (type == INT && strchr(value, ',')) type = INTS;
  PutBytes(attribute, 1, word, (size_t)(value - word - 1));
  PutNumber(attribute, 20, type);
  if (type == INT) PutNumber(attribute, 3, strtoll(value, NULL, 10));
  if (type == STRING) PutText(attribute, 4, value);
  if (type == REAL) PutFloat(attribute, 2, strtof(value, NULL));
  for (const char *at = value; type == INTS && *at;) {
    char *end;
    PutNumber(attribute, 8, strtoll(at, &end, 10));
    at = end + (*end == ',');
  }
  PutMessage(node, 5, attribute);
}

/* Op inputs -> outputs attributes */
static void PutNode(Message *graph, const Words *words, const char *text)
{
  Message *node = MessageNew();
  bool after = false;
  for (int i = 1; i < words->count; i++) {
    const char *word = words->word[i];
    if (strcmp(word, "->") == 0)
      after = true;
    else if (strncmp(word, "call=", 5) == 0)
      PutCall(node, word + 5);
    else if (strncmp(word, "scope=", 6) == 0 || strncmp(word, "type=", 5) == 0 ||
             strncmp(word, "line=", 5) == 0)
      PutOrigin(node, word);
    else if (strchr(word, '='))
      PutAttribute(node, word);
    else
      PutText(node, after ? 2 : 1, strcmp(word, "-") == 0 ? "" : word);
  }
  Expect(after, text);
  PutText(node, 4, words->word[0]);
  AddNode(graph, node);
}

static void PutPart(Message *graph, char *part, char signature[TEXT_MAX], const char *text)
{
  Words words = {0};
  char *rest = NULL;
  for (char *word = strtok_r(part, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    Expect(words.count < WORDS_MAX, text);
    words.word[words.count++] = word;
  }
  if (words.count == 0) return;
  if (strcmp(words.word[0], "in") == 0)
    PutInput(graph, &words);
  else if (strcmp(words.word[0], "init") == 0)
    PutInitializer(graph, &words, text);
  else if (strcmp(words.word[0], "out") == 0)
    AddOutput(graph, words.word[1]);
  else if (strcmp(words.word[0], "param") == 0 || strcmp(words.word[0], "buffer") == 0)
    PutSigned(signature, &words, text);
  else if (strcmp(words.word[0], "changed") == 0)
    PutChanged(signature, &words, text);
  else if (strcmp(words.word[0], "folded") == 0)
    PutFolded(graph, &words, text);
  else
    PutNode(graph, &words, text);
}

Message *NewModelOf(int64_t opset, const char *text)
{
  char copy[TEXT_MAX], signature[TEXT_MAX] = "", *rest = NULL;
  Message *graph = MessageNew();
  Expect(strlen(text) < sizeof copy, text);
  snprintf(copy, sizeof copy, "%s", text);
  for (char *part = strtok_r(copy, ";", &rest); part; part = strtok_r(NULL, ";", &rest))
    PutPart(graph, part, signature, text);
  if (*signature)
    AddProperty(graph, GRAPH_PROPERTY, "pkg.torch.export.ExportedProgram.graph_signature",
                signature);
  return NewModel(graph, opset);
}
