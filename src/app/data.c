/* renga data KIND FILES OUT: make a data set. */
#include "text.h"
#include <string.h>

#define ROW(name, kind, value, choices, low, high, text)                                           \
  {                                                                                                \
    name, RENGA_OPTION_##kind, value, RENGA_OPTION_NO_OFFSET, choices, low, high, text             \
  }
static const RengaOptionRow rows[] = {
    ROW("sequence", INT64, "128", NULL, 1, 1e9,
        "data text: tokens per sample; data pairs: of the source"),
    ROW("sequence_target", INT64, "0", NULL, 0, 1e9,
        "data pairs: tokens of the target; 0: as of the source"),
    ROW("vocabulary", INT64, "0", NULL, 0, 2e9,
        "data text, pairs: size of the byte-pair vocabulary; 0: bytes alone"),
    ROW("vocabulary_save", STRING, NULL, NULL, 0, 0,
        "data text, pairs: a text file that keeps the vocabulary"),
    ROW("data_document_end", STRING, NULL, NULL, 0, 0,
        "data text: the text behind each document; rows then hold whole documents"),
    ROW("data_packed", BOOL, "false", NULL, 0, 0,
        "data text, chat: rows hold several documents, which position_ids counts anew"),
    ROW("tokenizer", STRING, NULL, NULL, 0, 0,
        "data chat, pairs: a folder of Hugging Face, whose tokens are taken"),
    ROW("data_negatives", INT64, "0", NULL, 0, 10000,
        "data ratings: unrated items drawn as negatives for each rated one"),
    ROW("data_mean", REAL, "0", NULL, -1e30, 1e30,
        "data idx, images: mean to subtract; a byte b counts as b / 255"),
    ROW("data_deviation", REAL, "0", NULL, 0, 1e30,
        "data idx, images: standard deviation to divide by; 0: measure mean and deviation"),
    ROW("data_label", STRING, NULL, NULL, 0, 0,
        "data csv: the column of class labels; or -data_targets"),
    ROW("data_image_size", STRING, NULL, NULL, 0, 0,
        "data images: HxW pixels; without it all have the same size"),
    ROW("data_targets", STRING, NULL, NULL, 0, 0,
        "data csv: columns of numbers to predict (regression), with commas"),
    ROW("data_drop", STRING, NULL, NULL, 0, 0, "data csv: columns to leave out, with commas"),
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* On rank 0: a vocabulary that was kept, or one made from these texts; NULL: bytes are tokens. */
static RengaErrorCode FindDataVocabulary(int n_files, const char *const files[], int64_t kinds,
                                         RengaVocabulary *vocabulary)
{
  const char *keep, *kept;
  RengaCall(RengaOptionsGetString("vocabulary_file", &kept, NULL));
  RengaCall(RengaOptionsGetString("vocabulary_save", &keep, NULL));
  RengaCheck(kept == NULL || kinds == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-vocabulary and -vocabulary_file are both given: make a vocabulary or take one");
  RengaCheck(kept != NULL || kinds > 0 || keep == NULL, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-vocabulary_save %s: there is no vocabulary; how many kinds of tokens, -vocabulary?",
             keep);
  if (kept != NULL)
    RengaCall(RengaVocabularyRead(kept, vocabulary));
  else if (kinds > 0)
    RengaCall(RengaVocabularyTrain(n_files, files, kinds, vocabulary));
  if (keep != NULL) RengaCall(RengaVocabularyWrite(*vocabulary, keep));
  return RENGA_SUCCESS;
}

/* Collective; *kinds: 0 for bytes, on all ranks. */
static RengaErrorCode GetVocabulary(const App *app, MPI_Comm printer, int n_files,
                                    const char *const files[], RengaVocabulary *vocabulary,
                                    int64_t *kinds)
{
  RengaErrorCode code = RENGA_SUCCESS;
  int64_t wanted = 0;
  *vocabulary = NULL;
  *kinds = 0;
  RengaCall(RengaOptionsGetInt64("vocabulary", &wanted, NULL));
  if (RengaCommGetRank(app->comm) == 0)
    code = FindDataVocabulary(n_files, files, wanted, vocabulary);
  RengaCall(RengaErrorAgree(printer, code));
  if (*vocabulary) RengaCall(RengaVocabularyGetCount(*vocabulary, kinds));
  RengaCall(RengaCommBroadcast(app->comm, kinds, sizeof *kinds, 0, "the vocabulary"));
  return RENGA_SUCCESS;
}

/* What stands in a set of rows of documents. */
static RengaErrorCode TellRows(MPI_Comm printer, const char *out, const RengaDataRows *form,
                               const int64_t counts[RENGA_DATA_ROW_COUNTS])
{
  const double filled = (double)counts[RENGA_DATA_COUNT_TOKENS] /
                        ((double)counts[RENGA_DATA_COUNT_ROWS] * (double)form->sequence);
  RengaCall(RengaPrintf(
      printer,
      "wrote %s: %lld documents in %lld rows of %lld tokens, %.1f %% filled; %lld "
      "labels count; %lld documents are longer than a row\n",
      out, (long long)counts[RENGA_DATA_COUNT_DOCUMENTS], (long long)counts[RENGA_DATA_COUNT_ROWS],
      (long long)form->sequence, 100 * filled, (long long)counts[RENGA_DATA_COUNT_LABELS],
      (long long)counts[RENGA_DATA_COUNT_CUT]));
  return RENGA_SUCCESS;
}

static RengaErrorCode GetRows(RengaDataRows *form)
{
  *form = (RengaDataRows){0};
  RengaCall(RengaOptionsGetInt64("sequence", &form->sequence, NULL));
  RengaCall(RengaOptionsGetReal("data_validation", &form->validation_share, NULL));
  RengaCall(RengaOptionsGetBool("data_packed", &form->packed, NULL));
  RengaCall(RengaOptionsGetString("data_document_end", &form->end, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode RaiseNoVocabulary(MPI_Comm printer, const char *kind)
{
  RengaRaise(printer, RENGA_ERR_OPTION,
             "renga data %s needs -vocabulary KINDS, or -vocabulary_file FILE", kind);
}

static RengaErrorCode MakeDocuments(const App *app, MPI_Comm printer, const RengaDataRows *form)
{
  const char *const *files = (const char *const *)app->words + 1;
  int64_t kinds, counts[RENGA_DATA_ROW_COUNTS];
  RengaVocabulary vocabulary;
  RengaCheck(form->end, printer, RENGA_ERR_OPTION,
             "-data_packed: where do documents end? -data_document_end TEXT");
  RengaCall(GetVocabulary(app, printer, 1, files, &vocabulary, &kinds));
  const RengaErrorCode code =
      kinds > 0 ? RengaDataWriteDocuments(app->comm, vocabulary, files[0], files[1], form, counts)
                : RaiseNoVocabulary(printer, "text with -data_document_end");
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  RengaCall(code);
  RengaCall(TellRows(printer, files[1], form, counts));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeChat(const App *app, MPI_Comm printer)
{
  const char *const *files = (const char *const *)app->words + 1, *folder;
  int64_t counts[RENGA_DATA_ROW_COUNTS];
  RengaDataRows form;
  RengaCall(GetRows(&form));
  RengaCall(RengaOptionsGetString("tokenizer", &folder, NULL));
  RengaCheck(folder, printer, RENGA_ERR_OPTION, "renga data chat needs -tokenizer FOLDER");
  RengaCall(RengaDataWriteChat(app->comm, folder, files[0], files[1], &form, counts));
  RengaCall(TellRows(printer, files[1], &form, counts));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeText(const App *app, MPI_Comm printer)
{
  const char *const *files = (const char *const *)app->words + 1;
  int64_t sequence = 0, kinds;
  double validation = 0;
  RengaVocabulary vocabulary;
  RengaDataRows form;
  RengaCall(GetRows(&form));
  if (form.end || form.packed) {
    RengaCall(MakeDocuments(app, printer, &form));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOptionsGetInt64("sequence", &sequence, NULL));
  RengaCall(RengaOptionsGetReal("data_validation", &validation, NULL));
  RengaCall(GetVocabulary(app, printer, 1, files, &vocabulary, &kinds));
  const RengaErrorCode code =
      kinds > 0
          ? RengaDataWriteTokens(app->comm, vocabulary, files[0], files[1], sequence, validation)
          : RengaDataWriteText(app->comm, files[0], files[1], sequence, validation);
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  RengaCall(code);
  if (kinds > 0)
    RengaCall(RengaPrintf(printer,
                          "wrote %s: samples of %lld tokens of %lld kinds and the next one\n",
                          files[1], (long long)sequence, (long long)kinds));
  else
    RengaCall(RengaPrintf(printer, "wrote %s: samples of %lld bytes and the next one\n", files[1],
                          (long long)sequence));
  return RENGA_SUCCESS;
}

/* -tokenizer FOLDER: its tokens, and what targets begin with. */
static RengaErrorCode GetPairVocabulary(const App *app, MPI_Comm printer, const char *const files[],
                                        RengaVocabulary *vocabulary, int64_t *kinds)
{
  const char *folder;
  int64_t start, padding;
  char file[4096];
  RengaCall(RengaOptionsGetString("tokenizer", &folder, NULL));
  if (folder) {
    const char *kept;
    RengaCall(RengaOptionsGetString("vocabulary_file", &kept, NULL));
    RengaCheck(!kept, printer, RENGA_ERR_OPTION,
               "-tokenizer and -vocabulary_file are both given: which has the tokens?");
    snprintf(file, sizeof file, "%s/tokenizer.json", folder);
    RengaCall(AppReadStart(app->comm, folder, &start, &padding));
    RengaCall(RengaOptionsSetValue("vocabulary_file", file));
  }
  RengaCall(GetVocabulary(app, printer, 2, files, vocabulary, kinds));
  if (folder && *vocabulary) RengaCall(RengaVocabularySetStart(*vocabulary, start, padding));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePairs(const App *app, MPI_Comm printer)
{
  const char *const *files = (const char *const *)app->words + 1;
  int64_t lengths[2] = {0}, pairs[3], kinds;
  double validation = 0;
  RengaVocabulary vocabulary;
  RengaCall(RengaOptionsGetInt64("sequence", &lengths[0], NULL));
  RengaCall(RengaOptionsGetInt64("sequence_target", &lengths[1], NULL));
  RengaCall(RengaOptionsGetReal("data_validation", &validation, NULL));
  if (lengths[1] == 0) lengths[1] = lengths[0];
  RengaCall(GetPairVocabulary(app, printer, files, &vocabulary, &kinds));
  const RengaErrorCode code = kinds > 0
                                  ? RengaDataWritePairs(app->comm, vocabulary, files[0], files[1],
                                                        files[2], lengths, validation, pairs)
                                  : RaiseNoVocabulary(printer, "pairs");
  RengaCall(RengaVocabularyDestroy(&vocabulary));
  RengaCall(code);
  RengaCall(RengaPrintf(printer,
                        "wrote %s: %lld pairs of at most %lld and %lld tokens of %lld kinds; %lld "
                        "left out, as a line is empty, %lld cut\n",
                        files[2], (long long)pairs[0], (long long)lengths[0], (long long)lengths[1],
                        (long long)kinds, (long long)pairs[1], (long long)pairs[2]));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeRatings(const App *app, MPI_Comm printer)
{
  int64_t negatives = 0, seed = 0, numbers[3];
  RengaCall(RengaOptionsGetInt64("data_negatives", &negatives, NULL));
  RengaCall(RengaOptionsGetInt64("seed", &seed, NULL));
  RengaCall(RengaDataWriteRatings(app->comm, app->words[1], app->words[2], negatives,
                                  (uint64_t)seed, numbers));
  RengaCall(RengaPrintf(printer, "wrote %s: %lld samples of %lld users and %lld items\n",
                        app->words[2], (long long)numbers[2], (long long)numbers[0],
                        (long long)numbers[1]));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeNpy(const App *app, MPI_Comm printer)
{
  const char *out = app->words[app->n_words - 1];
  const int arrays = app->n_words - 2;
  RengaCall(RengaDataWriteNpy(app->comm, arrays, (const char *const *)app->words + 1, out));
  RengaCall(RengaPrintf(printer, "wrote %s: %d arrays\n", out, arrays));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeCsv(const App *app, MPI_Comm printer)
{
  const char *label, *targets, *dropped;
  double validation = 0;
  int64_t numbers[3];
  RengaCall(RengaOptionsGetString("data_label", &label, NULL));
  RengaCall(RengaOptionsGetString("data_targets", &targets, NULL));
  RengaCall(RengaOptionsGetString("data_drop", &dropped, NULL));
  RengaCall(RengaOptionsGetReal("data_validation", &validation, NULL));
  RengaCheck(
      !label != !targets, printer, RENGA_ERR_OPTION,
      "renga data csv: what is to be learned? -data_label COLUMN for classes, or -data_targets "
      "COLUMN,... for numbers");
  RengaCall(RengaDataWriteCsv(app->comm, app->words[1], app->words[2], label, targets, dropped,
                              validation, numbers));
  RengaCall(RengaPrintf(printer, "wrote %s: %lld rows, x of %lld column%s, %lld %s\n",
                        app->words[2], (long long)numbers[0], (long long)numbers[1],
                        numbers[1] == 1 ? "" : "s", (long long)numbers[2],
                        label             ? "classes"
                        : numbers[2] == 1 ? "target"
                                          : "targets"));
  return RENGA_SUCCESS;
}

static RengaErrorCode GetNormalization(MPI_Comm printer, double *mean, double *deviation)
{
  bool mean_given;
  RengaCall(RengaOptionsGetReal("data_mean", mean, &mean_given));
  RengaCall(RengaOptionsGetReal("data_deviation", deviation, NULL));
  RengaCheck(!mean_given || *deviation > 0, printer, RENGA_ERR_OPTION,
             "-data_mean %g needs -data_deviation: without it both are measured", *mean);
  return RENGA_SUCCESS;
}

/* "224x224"; 0, 0 where it is not given. */
static RengaErrorCode GetImageSize(MPI_Comm printer, int size[2])
{
  const char *text;
  char rest;
  size[0] = size[1] = 0;
  RengaCall(RengaOptionsGetString("data_image_size", &text, NULL));
  if (!text) return RENGA_SUCCESS;
  RengaCheck(sscanf(text, "%dx%d%c", &size[0], &size[1], &rest) == 2 && size[0] > 0 &&
                 size[1] > 0 && size[0] <= 65536 && size[1] <= 65536,
             printer, RENGA_ERR_OPTION,
             "-data_image_size %s: write height and width in pixels, such as 224x224", text);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeImages(const App *app, MPI_Comm printer)
{
  const char *out = app->words[app->n_words - 1];
  const int folders = app->n_words - 2;
  double mean = 0, deviation = 0, validation = 0;
  int64_t numbers[3];
  int size[2];
  RengaCall(GetNormalization(printer, &mean, &deviation));
  RengaCall(GetImageSize(printer, size));
  RengaCall(RengaOptionsGetReal("data_validation", &validation, NULL));
  RengaCheck(folders == 1 || validation == 0, printer, RENGA_ERR_OPTION,
             "renga data images: -data_validation %g and a second folder are both given",
             validation);
  RengaCall(RengaDataWriteImages(app->comm, folders, (const char *const *)app->words + 1, out, size,
                                 mean, deviation, validation, numbers));
  RengaCall(RengaPrintf(printer,
                        "wrote %s: %lld images of %lld classes; %lld other files left out\n", out,
                        (long long)numbers[0], (long long)numbers[1], (long long)numbers[2]));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeIdx(const App *app, MPI_Comm printer)
{
  const char *const *files = (const char *const *)app->words + 1,
                    *out = app->words[app->n_words - 1];
  double mean = 0, deviation = 0;
  RengaCall(GetNormalization(printer, &mean, &deviation));
  RengaCall(RengaDataWriteIdx(app->comm, app->n_words - 2, files, out, mean, deviation));
  RengaCall(RengaPrintf(printer, "wrote %s: images and labels%s\n", out,
                        app->n_words == 6 ? ", with a validation part" : ""));
  return RENGA_SUCCESS;
}

static const struct {
  const char *name, *usage;
  int words[2];        /* how many, itself and OUT included */
  const char *options; /* of the rows above, and others */
  RengaErrorCode (*make)(const App *app, MPI_Comm printer);
} kinds[] = {
    {"text",
     "text IN OUT",
     {3, 3},
     "sequence vocabulary vocabulary_file vocabulary_save data_validation data_document_end "
     "data_packed",
     MakeText},
    {"chat", "chat IN OUT", {3, 3}, "sequence tokenizer data_packed data_validation", MakeChat},
    {"pairs",
     "pairs SOURCE TARGET OUT",
     {4, 4},
     "sequence sequence_target vocabulary vocabulary_file vocabulary_save tokenizer "
     "data_validation",
     MakePairs},
    {"ratings", "ratings IN OUT", {3, 3}, "data_negatives seed", MakeRatings},
    {"idx", "idx IMAGES LABELS [IMAGES LABELS] OUT", {4, 6}, "data_mean data_deviation", MakeIdx},
    {"images",
     "images FOLDER [FOLDER] OUT",
     {3, 4},
     "data_mean data_deviation data_image_size data_validation",
     MakeImages},
    {"csv", "csv TABLE OUT", {3, 3}, "data_label data_targets data_drop data_validation", MakeCsv},
    {"npy", "npy ARRAY ... OUT", {3, 1000}, "", MakeNpy},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static RengaErrorCode FindKind(const char *name, MPI_Comm printer, int *kind)
{
  const char *names[N_KINDS], *closest;
  char list[256] = "";
  size_t used = 0;
  *kind = -1;
  for (int k = 0; k < N_KINDS; k++) {
    names[k] = kinds[k].name;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "", names[k]);
    if (!strcmp(names[k], name)) *kind = k;
  }
  closest = RengaClosestName(name, N_KINDS, names);
  RengaCheck(*kind >= 0, printer, RENGA_ERR_OPTION,
             "renga data makes data sets of kind %s, not of kind %s%s%s%s", list, name,
             closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "");
  return RENGA_SUCCESS;
}

/* Is a word one of those of a list? */
static bool IsListed(const char *list, const char *word)
{
  size_t length = strlen(word);
  for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
    if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
  return false;
}

/* An option of another kind is a mistake. */
static RengaErrorCode CheckOptions(int kind, MPI_Comm printer)
{
  static const char *const others[] = {"data_validation", "vocabulary_file", "seed"};
  for (int r = 0; r < N_ROWS + 3; r++) {
    const char *option = r < N_ROWS ? rows[r].name : others[r - N_ROWS], *value;
    bool given = false;
    RengaCall(RengaOptionsGetString(option, &value, &given));
    RengaCheck(!given || IsListed(kinds[kind].options, option), printer, RENGA_ERR_OPTION,
               "renga data %s does not use -%s", kinds[kind].name, option);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppDataRegister(void)
{
  RengaCall(RengaOptionsRegister("Making data sets", N_ROWS, rows));
  return RENGA_SUCCESS;
}

/* Another command was given an option of the rows above. */
RengaErrorCode AppDataRefuseOptions(RengaComm comm, const char *command)
{
  const MPI_Comm printer = AppPrinter(comm);
  for (int r = 0; r < N_ROWS; r++) {
    const char *value;
    bool given = false;
    RengaCall(RengaOptionsGetString(rows[r].name, &value, &given));
    RengaCheck(!given, printer, RENGA_ERR_OPTION, "renga %s does not use -%s: it is for renga data",
               command, rows[r].name);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppData(const App *app)
{
  int kind;
  const MPI_Comm printer = AppPrinter(app->comm);
  RengaCall(FindKind(app->words[0], printer, &kind));
  RengaCheck(app->n_words >= kinds[kind].words[0], printer, RENGA_ERR_OPTION,
             "renga data %s: some word is missing; usage: renga data %s", kinds[kind].name,
             kinds[kind].usage);
  RengaCheck(app->n_words <= kinds[kind].words[1], printer, RENGA_ERR_OPTION,
             "renga data %s: what is \"%s\" for? usage: renga data %s", kinds[kind].name,
             app->words[kinds[kind].words[1]], kinds[kind].usage);
  RengaCall(CheckOptions(kind, printer));
  RengaCall(AppCheckNewFile(app->comm, app->words[app->n_words - 1]));
  RengaCall(kinds[kind].make(app, printer));
  return RENGA_SUCCESS;
}
