/* TEST ranks: 1 2 */
/* Options: kinds, defaults, prefixes, values from the program, closest names, sizes as text. */
#include "../check.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  bool flag;
  int count;
  int64_t many, room;
  double rate;
  char *kind, *file;
  int choice;
} Settings;

static const RengaOptionRow rows[] = {
    {"test_flag", RENGA_OPTION_BOOL, "true", offsetof(Settings, flag), NULL, 0, 0, "a flag"},
    {"test_count", RENGA_OPTION_INT, "-3", offsetof(Settings, count), NULL, -5, 5, "a count"},
    {"test_many", RENGA_OPTION_INT64, "5000000000", offsetof(Settings, many), NULL, 0, 0, "many"},
    {"test_room", RENGA_OPTION_BYTES, "1.5GiB", offsetof(Settings, room), NULL, 0, 0, "room"},
    {"test_rate", RENGA_OPTION_REAL, "1e-3", offsetof(Settings, rate), NULL, 0, 1, "a rate"},
    {"test_kind", RENGA_OPTION_STRING, "sgd", offsetof(Settings, kind), "sgd|adam", 0, 0, "kind"},
    {"test_choice", RENGA_OPTION_ENUM, "left", offsetof(Settings, choice), "none|left|right", -1, 0,
     "a choice"},
    {"test_file", RENGA_OPTION_STRING, NULL, offsetof(Settings, file), NULL, 0, 0, "a file"},
    {"test_free", RENGA_OPTION_REAL, "0.25", RENGA_OPTION_NO_OFFSET, NULL, 0, 0, "read by name"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static RengaErrorCode TestTable(void)
{
  Settings settings = {0};
  RengaCall(RengaOptionsSetDefaults(ROWS, rows, &settings));
  Expect(settings.flag && settings.count == -3 && settings.many == 5000000000);
  Expect(settings.room == 1610612736 && settings.rate == 1e-3 && settings.file == NULL);
  Expect(strcmp(settings.kind, "sgd") == 0 && settings.choice == 0);
  settings.count = 2;
  RengaCall(RengaOptionsSetFromDatabase(NULL, ROWS, rows, &settings));
  Expect(settings.count == 2 && settings.flag == false); /* only what was given */
  RengaCall(RengaOptionsSetFromDatabase("first_", ROWS, rows, &settings));
  Expect(settings.count == 4 && strcmp(settings.kind, "adam") == 0);
  RengaCall(RengaOptionsSetValue("-test_file", "a file"));
  RengaCall(RengaOptionsSetValue("-test_choice", "none"));
  RengaCall(RengaOptionsSetFromDatabase(NULL, ROWS, rows, &settings));
  Expect(strcmp(settings.file, "a file") == 0 && settings.choice == -1);
  RengaCall(RengaOptionsFreeStrings(ROWS, rows, &settings));
  Expect(settings.file == NULL && settings.kind == NULL);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestByName(void)
{
  double real;
  int64_t whole;
  bool flag, given;
  const char *text;
  RengaCall(RengaOptionsGetReal("test_free", &real, &given));
  Expect(real == 0.25 && !given);
  RengaCall(RengaOptionsSetValue("test_free", "-4"));
  RengaCall(RengaOptionsGetReal("test_free", &real, &given));
  Expect(real == -4 && given);
  RengaCall(RengaOptionsClearValue("-test_free"));
  RengaCall(RengaOptionsClearValue("test_free"));
  RengaCall(RengaOptionsGetReal("test_free", &real, &given));
  Expect(real != -4 && !given);
  RengaCall(RengaOptionsGetString("test_file", &text, &given));
  Expect(strcmp(text, "a file") == 0 && given);
  RengaCall(RengaOptionsGetInt64("first_test_count", &whole, &given));
  Expect(whole == 4 && given);
  RengaCall(RengaOptionsGetInt64("test_room", &whole, &given));
  Expect(whole == 1610612736 && !given);
  RengaCall(RengaOptionsGetBool("test_flag", &flag, NULL));
  Expect(!flag);
  RengaCall(RengaOptionsGetString("test_kind", &text, &given));
  Expect(strcmp(text, "sgd") == 0 && !given);
  return RENGA_SUCCESS;
}

/* One that is cleared from between others leaves them, and the next one that is given, alone. */
static RengaErrorCode TestClear(void)
{
  int64_t whole;
  double real;
  const char *text;
  bool given;
  RengaCall(RengaOptionsSetValue("test_free", "0.5"));
  RengaCall(RengaOptionsSetValue("test_room", "2MiB"));
  RengaCall(RengaOptionsSetValue("test_kind", "adam"));
  RengaCall(RengaOptionsClearValue("test_free"));
  RengaCall(RengaOptionsSetValue("test_rate", "0.125"));
  RengaCall(RengaOptionsSetValue("test_file", "else")); /* would lie where "adam" was */
  RengaCall(RengaOptionsGetInt64("test_room", &whole, &given));
  Expect(whole == 2097152 && given);
  RengaCall(RengaOptionsGetString("test_kind", &text, &given));
  Expect(strcmp(text, "adam") == 0 && given);
  RengaCall(RengaOptionsGetReal("test_rate", &real, &given));
  Expect(real == 0.125 && given);
  RengaCall(RengaOptionsGetReal("test_free", &real, &given));
  Expect(!given);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestText(void)
{
  static const char *const names[] = {"optimizer_type", "device_type", "steps", "checkpoint_dir"};
  int64_t bytes;
  char text[16];
  Expect(RengaClosestName("optimiser_type", 4, names) == names[0]);
  Expect(RengaClosestName("step", 4, names) == names[2]);
  Expect(RengaClosestName("setps", 4, names) == names[2]);
  Expect(RengaClosestName("checkpoint", 4, names) == names[3]);
  Expect(RengaClosestName("zebra_crossing", 4, names) == NULL);
  RengaCall(RengaParseBytes("512MB", &bytes));
  Expect(bytes == 512000000);
  RengaCall(RengaParseBytes("8 GiB", &bytes));
  Expect(bytes == INT64_C(8) << 30);
  RengaFormatBytes(1.5 * (1 << 30), sizeof text, text);
  Expect(strcmp(text, "1.50 GiB") == 0);
  RengaFormatCount(123.9e6, sizeof text, text);
  Expect(strcmp(text, "124 M") == 0);
  RengaFormatCount(7, sizeof text, text);
  Expect(strcmp(text, "7") == 0);
  return RENGA_SUCCESS;
}

/* A start with these words fails, and says this. */
static RengaErrorCode Refuse(const char *first, const char *one, const char *second,
                             const char *other, const char *sentence)
{
  char texts[5][64], *words[] = {texts[0], texts[1], texts[2], texts[3], texts[4], NULL};
  char **argv = words;
  int argc = second ? 5 : 3;
  const char *given[] = {"options", first, one, second ? second : "", other ? other : ""};
  for (int i = 0; i < 5; i++) strcpy(texts[i], given[i]);
  words[argc] = NULL;
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  const RengaErrorCode code = RengaInitialize(&argc, &argv, NULL);
  RengaErrorSetHandler(NULL, NULL);
  Expect(code == RENGA_ERR_OPTION);
  Expect(strstr(RengaErrorGetMessage(), sentence) != NULL);
  return RENGA_SUCCESS;
}

static RengaErrorCode ExpectText(const char *name, const char *wanted)
{
  const char *text;
  bool given;
  RengaCall(RengaOptionsGetString(name, &text, &given));
  Expect(given == (wanted != NULL) && (!wanted || strcmp(text, wanted) == 0));
  return RENGA_SUCCESS;
}

/* Other names of an option: of the field, and of the version before. */
static RengaErrorCode TestRefusedNames(void)
{
  const char *two = "are one option with two values";
  RengaCall(Refuse("-partition_stages", "2", "-layout_pipeline", "4", two));
  RengaCall(Refuse("-layout_pipeline", "4", "-pipeline_parallel", "2", two));
  RengaCall(Refuse("-zero_stage", "1", "-layout_zero", "none", two));
  RengaCall(Refuse("-first_tensor_parallel", "1", "-first_layout_tensor", "2", two));
  RengaCall(Refuse("-expert_parallel", "2", NULL, NULL, "must be 1, as no other is supported"));
  RengaCall(Refuse("-data_learners", "x", NULL, NULL, "it was given as -data_learners"));
  RengaCall(Refuse("-zero_stge", "1", NULL, NULL, "did you mean -layout_zero"));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestNames(void)
{
  RengaCall(ExpectText("layout_pipeline", "4")); /* the program's, under its old name */
  RengaCall(ExpectText("partition_stages", "4"));
  RengaCall(ExpectText("layout_zero", "2"));         /* -zero_stage 2 -pipeline_shard gradients */
  RengaCall(ExpectText("first_layout_tensor", "2")); /* -first_tensor_parallel 2 */
  RengaCall(ExpectText("layout_tensor", NULL));
  RengaCall(ExpectText("layout_recompute", "auto")); /* -recompute selective */
  RengaCall(ExpectText("layout_data", "8"));         /* the command line, over RENGA_OPTIONS */
  RengaCall(RengaOptionsSetValue("-partition_stages", "3"));
  RengaCall(ExpectText("layout_pipeline", "3"));
  RengaCall(RengaOptionsClearValue("pipeline_parallel"));
  RengaCall(ExpectText("layout_pipeline", NULL));
  RengaCall(RengaOptionsClearValue("zero_stage"));
  RengaCall(RengaOptionsClearValue("layout_recompute"));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestOptions(void)
{
  static char name[] = "options", flag[] = "-test_flag=no", word[] = "train";
  static char prefixed[] = "--first_test_count", number[] = "4";
  static char zero[] = "-zero_stage=2", shard[] = "-pipeline_shard=gradients";
  static char tensor[] = "--first_tensor_parallel=2", again[] = "-recompute=selective";
  static char data[] = "-layout_data=8";
  char *words[] = {name, flag, word, prefixed, number, zero, shard, tensor, again, data, NULL},
       **argv = words;
  int argc = 10;
  RengaCall(RengaOptionsRegister("Test", ROWS, rows));
  RengaCall(RengaOptionsAddPrefix("first_"));
  RengaCall(RengaOptionsSetValue("first_test_kind", "adam"));
  RengaCall(RengaOptionsSetValue("first_test_count", "1"));
  RengaCall(TestRefusedNames());
  RengaCall(RengaOptionsSetValue("partition_stages", "4"));
  setenv("RENGA_OPTIONS", "-data_parallel 4 # over which stands the command line", 1);
  RengaCall(RengaInitialize(&argc, &argv, NULL));
  Expect(argc == 2 && argv[1] == word && argv[2] == NULL);
  RengaCall(TestTable());
  RengaCall(TestByName());
  RengaCall(TestClear());
  RengaCall(TestText());
  RengaCall(TestNames());
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(void)
{
  RengaCallAbort(TestOptions());
  return 0;
}
