/* The renga program: finds the command, refuses options that it would not use, runs it. */
#include "app.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "usage: mpiexec -n RANKS renga train -graph NETWORK -data FILE [options]\n"
    "       renga info -graph NETWORK | -checkpoint FILE | -device\n"
    "       renga plan -graph NETWORK [options]\n"
    "       mpiexec -n RANKS renga profile -graph NETWORK [options]\n"
    "       renga data KIND FILES OUT [options]\n"
    "       renga generate -graph NETWORK -checkpoint FILE [options]\n"
    "       mpiexec -n RANKS renga eval -graph NETWORK -data FILE -initial CHECKPOINT [options]\n"
    "       mpiexec -n RANKS renga predict OUT -graph NETWORK -data FILE -initial CHECKPOINT "
    "[options]\n"
    "       renga export CHECKPOINT FOLDER [options]\n"
    "       renga options FILE\n"
    "       renga watch FOLDER|FILE|HOST:PORT\n"
    "       renga run [-n RANKS] [-hosts FILE] [options] -- renga train ...\n"
    "\n"
    "  train     train on all ranks: pipeline stages x replicas\n"
    "  info      what a network or a checkpoint holds, and what computes here\n"
    "  plan      who would compute what, without running\n"
    "  profile   what each operator of a network costs, on this machine or another\n"
    "  data      make a data set:\n"
    "              renga data text IN OUT                             of a text\n"
    "              renga data pairs SOURCE TARGET OUT                 of aligned texts\n"
    "              renga data ratings IN OUT                          of users, items, ratings\n"
    "              renga data csv TABLE OUT                           of a table of text\n"
    "              renga data images FOLDER [FOLDER] OUT              of PNG and JPEG files\n"
    "              renga data npy ARRAY ... OUT                       of arrays of NumPy\n"
    "              renga data idx IMAGES LABELS [IMAGES LABELS] OUT   of images and classes\n"
    "  generate  write text from a trained network\n"
    "  eval      the loss of a trained network over a data set, or its answers to questions\n"
    "  predict   the outputs of a trained network for a data set, as an HDF5 file\n"
    "  export    the parameters of a checkpoint as a folder of Hugging Face\n"
    "  options   write a file of all options, as comments, for -options_file\n"
    "  watch     follow a running training, by the file of -monitor csv or the page of http\n"
    "  run       start a training on ranks, and again where it crashes; renga run -help\n"
    "\n"
    "NETWORK is an ONNX file or a built-in network with its sizes, such as\n"
    "gpt:layers=4,hidden=256,heads=8,sequence=128,vocabulary=256, bert:..., llama:..., mlp:...,\n"
    "ncf:..., resnet:depth=18, t5:..., transformer:...; or hf:FOLDER, that of a folder of\n"
    "Hugging Face.\n"
    "\n"
    "renga COMMAND -help lists the options of a command, renga -version says which Renga this "
    "is.\n";

typedef struct {
  const char *name;
  RengaErrorCode (*run)(const App *app);
  const char *usage;
  int least_words, most_words;
  const char *sections; /* of the options that it uses, besides those of all commands */
  bool writes_last;     /* the last word is the file that it makes */
} Command;

#define RUNNING "|Graph|Device|Communication|Layout|Pipeline|"
#define PLANNING "|Graph|Device|Machine|Profile|Plan|Layout|Partition|Schedule|Optimizer|Pipeline|"
#define RUNNING_FORWARD                                                                            \
  "|Graph|Device|Communication|Layout|Pipeline|Machine|Profile|Plan|Partition|Schedule|Data|"
static const Command commands[] = {
    {"train", AppTrain, "renga train -graph NETWORK -data FILE [options]", 0, 0,
     RUNNING PLANNING "|Data|Checkpoint|", false},
    {"info", AppInfo, "renga info -graph NETWORK, -checkpoint FILE|FOLDER, or -device", 0, 0,
     "|Graph|Device|", false},
    {"plan", AppPlan, "renga plan -graph NETWORK [options], or renga plan -plan_diff FILE FILE", 0,
     APP_SWEPT - 1, PLANNING, false},
    {"profile", AppProfile, "renga profile -graph NETWORK [options]", 0, 0,
     "|Graph|Device|Communication|Machine|Profile|Optimizer|", false},
    {"data", AppData, "renga data KIND FILES OUT [options]", 1, 1000, "|Making data sets|", true},
    {"generate", AppGenerate, "renga generate -graph NETWORK -checkpoint FILE [options]", 0, 0,
     RUNNING "|Partition|", false},
    {"eval", AppEval, "renga eval -graph NETWORK -data FILE -initial CHECKPOINT [options]", 0, 0,
     RUNNING_FORWARD, false},
    {"predict", AppPredict,
     "renga predict OUT -graph NETWORK -data FILE -initial CHECKPOINT [options]", 1, 1,
     RUNNING_FORWARD, true},
    {"export", AppExport, "renga export CHECKPOINT FOLDER [options]", 2, 2, "", true},
    {"options", AppOptions, "renga options FILE", 1, 1, "", true},
    {"watch", AppWatch, "renga watch FOLDER|FILE|HOST:PORT [options]", 1, 1, "", false},
    {"run", AppSuperviseMisplaced, "renga run [-n RANKS] [-hosts FILE] [options] -- COMMAND", 0,
     1000, "", false},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

#define ROW(name, kind, value, choices, low, high, text)                                           \
  {                                                                                                \
    name, RENGA_OPTION_##kind, value, RENGA_OPTION_NO_OFFSET, choices, low, high, text             \
  }
static const RengaOptionRow rows[] = {
    ROW("monitor", STRING, NULL, NULL, 0, 0,
        "where the numbers of each step go: csv:FILE, tensorboard:DIR, http:PORT"),
    ROW("monitor_token", SECRET, NULL, NULL, 0, 0,
        "train, watch: token that requests to the page of -monitor http need"),
    ROW("monitor_token_file", STRING, NULL, NULL, 0, 0,
        "train, watch: file whose first line is the token"),
    ROW("watch_every", REAL, "1", NULL, 0.1, 3600, "watch: seconds between two looks at the run"),
    ROW("watch_once", BOOL, "false", NULL, 0, 0, "watch: look once and end"),
    ROW("monitor_every", INT64, "0", NULL, 0, 1e15,
        "train: steps per line of progress; 0: a line per second"),
    ROW("progress", STRING, "auto", "auto|bar|lines|none", 0, 0,
        "train: how progress is shown; auto: a bar on a terminal, else lines"),
    ROW("eval", STRING, NULL, NULL, 0, 0,
        "train, eval, predict: HDF5 files of the validation part, with commas and patterns"),
    ROW("eval_choices", STRING, NULL, NULL, 0, 0,
        "eval: FILE.jsonl of questions with several answers, in place of -data"),
    ROW("time_limit", STRING, "auto", NULL, 0, 0,
        "train: time (HH:MM:SS) until a last checkpoint; auto: the Slurm job's; 0: none"),
    ROW("resume_strict", BOOL, "false", NULL, 0, 0,
        "train: other settings than those of the checkpoint's run are an error"),
    ROW("parameter_digest", BOOL, "false", NULL, 0, 0,
        "train: print a checksum of all parameters and moments that no layout changes"),
    ROW("checkpoint", STRING, NULL, NULL, 0, 0,
        "info, generate: the checkpoint's file, or a folder: its newest"),
    ROW("device", BOOL, "false", NULL, 0, 0, "info: say which processor and GPU are here"),
    ROW("info_parameters", BOOL, "false", NULL, 0, 0,
        "info: list what is trained, tied, frozen and constant, one line each"),
    ROW("plan_diff", STRING, NULL, NULL, 0, 0,
        "plan: compare the plan of this file with that of the next"),
    ROW("plan_tokens", REAL, "0", NULL, 0, 1e18,
        "plan: tokens of a whole training, for its steps, time, node-hours and device-hours"),
    ROW("plan_samples", REAL, "0", NULL, 0, 1e18,
        "plan: samples of a whole training, in place of -plan_tokens"),
    ROW("plan_sweep", STRING, NULL, NULL, 0, 0,
        "plan: table over values of options: OPTION:VALUE,VALUE,... ..."),
    ROW("simulate_slow", STRING, NULL, NULL, 0, 0,
        "plan: NODE:FACTOR: devices of this node take so many times as long"),
    ROW("simulate_link", STRING, NULL, NULL, 0, 0,
        "plan: NODE:SHARE: network cards of this node have this share of their bandwidth"),
    ROW("simulate_lost", INT64, "0", NULL, 0, 1e8,
        "plan: this node has lost its first network card"),
    ROW("simulate_jitter", REAL, "0", NULL, 0, 1,
        "plan: standard deviation of the seconds of actions, as a share"),
    ROW("simulate_save", STRING, NULL, NULL, 0, 0,
        "plan: file for the step as a text, for simulators of networks"),
    ROW("simulate_seed", INT64, "0", NULL, 0, 1e15, "seed of -simulate_jitter"),
    ROW("vocabulary_file", STRING, NULL, NULL, 0, 0,
        "vocabulary to use: a saved one, a data set's, or tokenizer.json"),
    ROW("prompt", STRING, "In the beginning", NULL, 0, 0, "generate: how the text begins"),
    ROW("prompt_tokens", STRING, NULL, NULL, 0, 0,
        "generate: prompts as token numbers: 15,7,210; several with semicolons between them"),
    ROW("prompt_file", STRING, NULL, NULL, 0, 0,
        "generate: file with a prompt per line, or FILE.jsonl with objects"),
    ROW("tokens", INT64, "200", NULL, 1, 1e9, "generate: most tokens to write behind a prompt"),
    ROW("temperature", REAL, "0.8", NULL, 0, 100,
        "generate: sampling temperature; 0 takes the likeliest token"),
    ROW("generate_top_k", INT64, "0", NULL, 0, 1e9,
        "generate: draw among so many of the likeliest tokens; 0: among all"),
    ROW("generate_top_p", REAL, "1", NULL, 0, 1,
        "generate: draw among the likeliest tokens of this share of the probability"),
    ROW("generate_stop", STRING, NULL, NULL, 0, 0,
        "generate: texts, and tokens as #7, that end a text, comma separated"),
    ROW("generate_cache", STRING, "auto", "auto|on|off", 0, 0,
        "generate: keep keys and values of earlier tokens; auto: where possible"),
    ROW("generate_format", STRING, "text", "text|jsonl", 0, 0,
        "generate: how it is printed; jsonl: an object for each prompt, with its tokens"),
    ROW("output", STRING, NULL, NULL, 0, 0,
        "generate, eval -eval_choices: the output with the scores (logits); predict: outputs, with "
        "commas (all)"),
    ROW("part", STRING, "auto", "auto|validation|training|all", 0, 0,
        "eval, predict: which samples; auto: predict all, eval those for validation if there are"),
    ROW("export_type", STRING, "float32", "float32|bfloat16|float16", 0, 0,
        "export: the type of the numbers"),
    ROW("export_file", BYTES, "5GB", NULL, 1, 1e18,
        "export: most bytes of a safetensors file; further tensors go to further files"),
    ROW("export_like", STRING, NULL, NULL, 0, 0,
        "export: folder whose config.json and tokenizer are copied"),
    ROW("export_merged", BOOL, "false", NULL, 0, 0,
        "export: add LoRA adapters to the weights, and write the network without them"),
    ROW("overwrite", BOOL, "false", NULL, 0, 0, "data, predict: replace OUT if it exists"),
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Options that only these commands use: to give one to another command is a mistake. */
static const struct {
  const char *option, *commands;
} used_by[] = {
    {"steps", "train watch"},
    {"resume", "train"},
    {"initial", "train eval predict"},
    {"initial_partial", "train eval predict"},
    {"initial_adapter", "train eval predict generate"},
    {"monitor", "train eval"},
    {"monitor_token", "train watch"},
    {"monitor_token_file", "train watch"},
    {"watch_every", "watch"},
    {"watch_once", "watch"},
    {"monitor_every", "train"},
    {"progress", "train"},
    {"eval_every", "train"},
    {"eval_samples", "train eval"},
    {"eval_choices", "eval"},
    {"parameter_digest", "train"},
    {"device", "info"},
    {"info_parameters", "info"},
    {"keep_best", "train"},
    {"early_stop", "train"},
    {"time_limit", "train"},
    {"resume_strict", "train"},
    {"rollback_limit", "train"},
    {"checkpoint", "info generate"},
    {"plan_diff", "plan"},
    {"plan_tokens", "plan"},
    {"plan_samples", "plan"},
    {"plan_sweep", "plan"},
    {"simulate_slow", "plan"},
    {"simulate_link", "plan"},
    {"simulate_lost", "plan"},
    {"simulate_jitter", "plan"},
    {"simulate_save", "plan"},
    {"simulate_seed", "plan"},
    {"prompt", "generate"},
    {"prompt_tokens", "generate"},
    {"prompt_file", "generate"},
    {"generate_top_k", "generate"},
    {"generate_top_p", "generate"},
    {"generate_stop", "generate"},
    {"generate_cache", "generate"},
    {"generate_format", "generate"},
    {"tokens", "generate"},
    {"temperature", "generate"},
    {"output", "generate eval predict"},
    {"part", "eval predict"},
    {"overwrite", "predict data"},
    {"export_type", "export"},
    {"export_file", "export"},
    {"export_like", "export"},
    {"export_merged", "export"},
    {"seed", "train generate data eval predict"},
    {"checkpoint_dir", "train"},
    {"checkpoint_every", "train"},
    {"checkpoint_async", "train"},
    {"checkpoint_format", "train"},
    {"data", "train eval predict generate"},
    {"data_shuffle", "train"},
    {"data_owners", "train"},
    {"data_owners_order", "train"},
    {"data_placement", "train"},
    {"data_cache", "train"},
    {"train_average", "train"},
    {"train_learners", "train"},
    {"data_hide", "train"},
    {"data_importance", "train"},
    {"data_hide_confidence", "train"},
    {"data_hide_warmup", "train"},
    {"data_hide_schedule", "train"},
    {"data_hide_rate", "train"},
    {"eval", "train eval predict"},
    {"vocabulary_file", "data generate eval"},
    {"data_masking", "train eval predict"},
    {"data_validation", "train data eval predict"},
    {"profile_save", "profile"},
    {"profile_samples", "profile"},
    {"profile_view", "profile"},
    {"schedule_view", "plan train"},
};

/* Two names of whose parameters are used: which one a command has. */
static const char *const same_use[][2] = {{"initial", "checkpoint"}, {"checkpoint", "initial"}};

static bool UsesOption(const Command *command, const char *option)
{
  for (size_t i = 0; i < sizeof used_by / sizeof used_by[0]; i++)
    if (strcmp(used_by[i].option, option) == 0)
      return strstr(used_by[i].commands, command->name) != NULL;
  return false;
}

/* What the command has in the place of an option of others; "": nothing. */
static const char *FindOwnOption(const Command *command, const char *option)
{
  for (size_t i = 0; i < sizeof same_use / sizeof same_use[0]; i++)
    if (strcmp(same_use[i][0], option) == 0 && UsesOption(command, same_use[i][1]))
      return same_use[i][1];
  return "";
}

static RengaErrorCode FindCommand(RengaComm comm, int argc, char **argv, const Command **command)
{
  const char *names[N_COMMANDS], *closest;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCheck(argc > 1, printer, RENGA_ERR_OPTION,
             "renga needs a command: train, info, plan, profile, data, generate, eval, predict, "
             "export, options, watch or run; renga -help says more");
  for (int c = 0; c < N_COMMANDS; c++) {
    names[c] = commands[c].name;
    if (!strcmp(argv[1], names[c])) *command = &commands[c];
  }
  closest = RengaClosestName(argv[1], N_COMMANDS, names);
  RengaCheck(*command, printer, RENGA_ERR_OPTION,
             "renga has no command %s%s%s%s; it has train, info, plan, profile, data, generate, "
             "eval, predict, export, options, watch, run",
             argv[1], closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "");
  return RENGA_SUCCESS;
}

/* Not those of sections that the command does not use, nor those that only other commands use. */
static bool IsOfCommand(const char *section, const char *option, void *user)
{
  const Command *const *command = user;
  char framed[64];
  for (size_t i = 0; i < sizeof used_by / sizeof used_by[0]; i++)
    if (strcmp(used_by[i].option, option) == 0)
      return strstr(used_by[i].commands, (*command)->name) != NULL;
  snprintf(framed, sizeof framed, "|%s|", section);
  return strstr("|General|Program|", framed) || strstr((*command)->sections, framed);
}

/* -version; -help of a command, or of the program. */
static RengaErrorCode AnswerHelp(RengaComm comm, int argc, char **argv, bool *answered)
{
  bool wants_help, wants_version;
  const Command *command = NULL;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetBool("help", &wants_help, NULL));
  RengaCall(RengaOptionsGetBool("version", &wants_version, NULL));
  *answered = wants_help || wants_version;
  if (wants_version) {
    RengaCall(RengaPrintf(printer, "renga %s\n", RENGA_VERSION));
  } else if (wants_help && argc < 2) {
    RengaCall(RengaPrintf(printer, "%s", help));
  } else if (wants_help) {
    RengaCall(FindCommand(comm, argc, argv, &command));
    RengaCall(RengaPrintf(printer, "usage: %s\n", command->usage));
    if (RengaCommGetRank(comm) == 0) RengaCall(RengaOptionsHelp(stdout, IsOfCommand, &command));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWords(const App *app, const Command *command)
{
  const MPI_Comm printer = AppPrinter(app->comm);
  RengaCheck(app->n_words <= command->most_words, printer, RENGA_ERR_OPTION,
             "renga %s: what is \"%s\" for? (options begin with a dash); usage: %s", command->name,
             app->words[command->most_words], command->usage);
  RengaCheck(app->n_words >= command->least_words, printer, RENGA_ERR_OPTION,
             "renga %s: some word is missing; usage: %s", command->name, command->usage);
  for (size_t i = 0; i < sizeof used_by / sizeof used_by[0]; i++) {
    const char *value, *own = FindOwnOption(command, used_by[i].option);
    bool given = false;
    RengaCall(RengaOptionsGetString(used_by[i].option, &value, &given));
    RengaCheck(!given || strstr(used_by[i].commands, command->name), printer, RENGA_ERR_OPTION,
               "renga %s does not use -%s: it is for renga %s%s%s", command->name,
               used_by[i].option, used_by[i].commands, *own ? "; here it is -" : "", own);
  }
  if (strcmp(command->name, "data") != 0) RengaCall(AppDataRefuseOptions(app->comm, command->name));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunCommand(const App *app, int argc, char **argv)
{
  const Command *command = NULL;
  RengaCall(FindCommand(app->comm, argc, argv, &command));
  RengaCall(CheckWords(app, command));
  RengaCall(AppCheckFiles(app, command->writes_last));
  RengaCall(command->run(app));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(int argc, char **argv, int *exit_code)
{
  App app = {NULL, argc - 2, argv + 2, exit_code};
  bool answered;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &app.comm));
  RengaCall(RengaCommSetFromOptions(app.comm));
  RengaCall(AnswerHelp(app.comm, argc, argv, &answered));
  if (!answered) RengaCall(RunCommand(&app, argc, argv));
  RengaCall(RengaCommDestroy(&app.comm));
  return RENGA_SUCCESS;
}

/* MPICH's mpiexec that has forwarded a signal forgets the exit codes of ranks whose output ends
   with them, and says 0. So the output outlives this process, however long that takes to end, by a
   moment, and ends in two parts: mpiexec asks for codes when anything happens. */
static void LetLauncherSee(void)
{
  enum { LONGEST = 50 }; /* moments */
  const struct timespec moment = {0, 200000000};
  const pid_t process = getpid();
  if (!getenv("MPI_LOCALNRANKS") || fork() != 0) return;
  for (int i = 0; i < LONGEST && getppid() == process; i++) nanosleep(&moment, NULL);
  nanosleep(&moment, NULL);
  for (int file = 0; file < 1024; file++)
    if (file != STDERR_FILENO) close(file);
  nanosleep(&moment, NULL);
  _exit(0);
}

int main(int argc, char **argv)
{
  int exit_code = 0;
  if (argc > 1 && strcmp(argv[1], "run") == 0) return AppSupervise(argc, argv);
  RengaCallAbort(RengaOptionsRegister("Program", N_ROWS, rows));
  RengaCallAbort(AppDataRegister());
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(Run(argc, argv, &exit_code));
  RengaSetExitCode(exit_code);
  RengaCallAbort(RengaFinalize());
  if (exit_code) LetLauncherSee();
  return exit_code;
}
