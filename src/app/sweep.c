/* renga plan -plan_sweep: a plan for each value of an option, or for each combination of the values
   of several, in a table and a picture. */
#include "app.h"
#include "renga/private/choice.h"
#include <string.h>

enum { SWEEP_MOST = 64 };

/* What plans change with; network: so does the network, which is read anew. */
static const struct {
  const char *option;
  bool network;
} sweepable[] = {
    {"machine_file", false},     {"machine_nodes", false},    {"machine_memory", false},
    {"machine_devices", false},  {"batch_size", true},        {"microbatch_size", true},
    {"partition_leaf", false},   {"precision", true},         {"partition_type", false},
    {"layout_pipeline", false},  {"layout_data", true},       {"partition_ranks", true},
    {"partition_memory", false}, {"schedule_type", false},    {"schedule_eager", false},
    {"layout_chunks", false},    {"layout_zero", false},      {"layout_recompute", false},
    {"layout_offload", false},   {"pipeline_overlap", false}, {"pipeline_reduction", false},
    {"pipeline_buckets", false}, {"optimizer_type", false},   {"optimizer_sparse", false},
    {"layout_tensor", true},     {"layout_context", false},   {"layout_zero_groups", false},
};
enum { N_SWEEPABLE = sizeof sweepable / sizeof sweepable[0] };

typedef struct {
  char option[32];
  int count;
  char value[SWEEP_MOST][APP_SWEPT_VALUE];
} SweptOption;

typedef struct {
  RengaComm comm;
  MPI_Comm printer;
  int n_options;
  SweptOption option[APP_SWEPT];
  bool network;   /* it is read anew for each row */
  AppLanes lanes; /* each row has its own */
  RengaGraph graph;
  char title[256];
  AppPlanTable table;
} Sweep;

static RengaErrorCode RefuseSwept(const Sweep *sweep, const char *option, const char *text)
{
  char all[1024] = "";
  const char *names[N_SWEEPABLE];
  for (int i = 0; i < N_SWEEPABLE; i++) {
    const size_t length = strlen(all);
    names[i] = sweepable[i].option;
    snprintf(all + length, sizeof all - length, "%s%s", i ? ", " : "", names[i]);
  }
  const char *closest = RengaClosestName(option, N_SWEEPABLE, names);
  RengaCheck(false, sweep->printer, RENGA_ERR_OPTION,
             "-plan_sweep %s: write OPTION:VALUE,VALUE,... of %s%s%s%s", text, all,
             closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "");
  return RENGA_SUCCESS;
}

/* Whether it may be swept, and once only. */
static RengaErrorCode NameSwept(Sweep *sweep, const char *text, SweptOption *swept)
{
  const size_t length = strcspn(text, ":");
  char name[sizeof swept->option];
  bool known = false, old;
  snprintf(name, sizeof name, "%.*s", (int)length, text);
  const char *option = RengaOptionNewName_Private(name, &old);
  if (old) RengaWarning(sweep->printer, "-plan_sweep: -%s is -%s now", name, option);
  snprintf(swept->option, sizeof swept->option, "%.31s", option ? option : name);
  for (int i = 0; i < N_SWEEPABLE; i++)
    if (!strcmp(sweepable[i].option, swept->option)) {
      known = true;
      sweep->network = sweep->network || sweepable[i].network;
    }
  if (!known || text[length] != ':') RengaCall(RefuseSwept(sweep, swept->option, text));
  for (int o = 0; o < sweep->n_options; o++)
    RengaCheck(strcmp(sweep->option[o].option, swept->option), sweep->printer, RENGA_ERR_OPTION,
               "-plan_sweep has %s twice: write all its values in one list", swept->option);
  return RENGA_SUCCESS;
}

/* The option takes the value: else its own sentence is passed on. */
static RengaErrorCode SetSwept(const Sweep *sweep, const char *option, const char *value)
{
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  const RengaErrorCode code = RengaOptionsSetValue(option, value);
  RengaErrorSetHandler(NULL, NULL);
  RengaCheck(!code, sweep->printer, code, "-plan_sweep: %s", RengaErrorGetMessage());
  return RENGA_SUCCESS;
}

/* "batch_size:512,1024" */
static RengaErrorCode ReadSwept(Sweep *sweep, const char *text)
{
  RengaCheck(sweep->n_options < APP_SWEPT, sweep->printer, RENGA_ERR_OPTION,
             "-plan_sweep: at most %d options, please; %s is one more", APP_SWEPT, text);
  SweptOption *swept = &sweep->option[sweep->n_options];
  swept->count = 0;
  RengaCall(NameSwept(sweep, text, swept));
  for (const char *at = strchr(text, ':') + 1; at;
       at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    const size_t size = strcspn(at, ",");
    RengaCheck(swept->count < SWEEP_MOST && size > 0 &&
                       size<APP_SWEPT_VALUE, sweep->printer, RENGA_ERR_OPTION,
                            "-plan_sweep %.40s%s: at most %d values, none empty, please, and none "
                            "longer than %d",
                            text, strlen(text)> 40
                   ? "..."
                   : "",
               SWEEP_MOST, APP_SWEPT_VALUE - 1);
    char *value = swept->value[swept->count++];
    snprintf(value, APP_SWEPT_VALUE, "%.*s", (int)size, at);
    RengaCall(SetSwept(sweep, swept->option, value));
  }
  sweep->n_options++;
  return RENGA_SUCCESS;
}

/* Several, with spaces between them. */
static RengaErrorCode ReadSweptList(Sweep *sweep, const char *text)
{
  char *copy = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaStringCopy(text, &copy));
  for (char *at = copy; *at && !code;) {
    const size_t blank = strspn(at, " "), size = strcspn(at + blank, " ");
    char *next = at + blank + size;
    if (*next) *next++ = 0;
    if (size) code = ReadSwept(sweep, at + blank);
    at = next;
  }
  RengaFree(&copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* -machine_nodes 1,2,4 beside a sweep is one more of its options. */
static RengaErrorCode ReadSweptNodes(Sweep *sweep)
{
  const char *nodes;
  char text[1024];
  RengaCall(RengaOptionsGetString("machine_nodes", &nodes, NULL));
  if (!nodes || !strchr(nodes, ',')) return RENGA_SUCCESS;
  RengaCheck(strlen(nodes) < sizeof text - 16, sweep->printer, RENGA_ERR_OPTION,
             "-machine_nodes %.40s...: at most %d values, please", nodes, SWEEP_MOST);
  snprintf(text, sizeof text, "machine_nodes:%s", nodes);
  RengaCall(ReadSwept(sweep, text));
  return RENGA_SUCCESS;
}

static int CountSweptRows(const Sweep *sweep)
{
  int count = 1;
  for (int o = 0; o < sweep->n_options && count <= SWEEP_MOST; o++) count *= sweep->option[o].count;
  return count;
}

static RengaErrorCode ReadSweep(Sweep *sweep, const App *app)
{
  const char *text, *machine;
  bool given;
  RengaCall(RengaOptionsGetString("plan_sweep", &text, NULL));
  RengaCall(AppFindOpenLanes(&sweep->lanes));
  RengaCall(ReadSweptList(sweep, text));
  for (int w = 0; w < app->n_words; w++) RengaCall(ReadSweptList(sweep, app->words[w]));
  RengaCheck(sweep->n_options > 0, sweep->printer, RENGA_ERR_OPTION,
             "-plan_sweep is empty: write OPTION:VALUE,VALUE,..., as batch_size:512,1024");
  RengaCall(ReadSweptNodes(sweep));
  RengaCheck(CountSweptRows(sweep) <= SWEEP_MOST, sweep->printer, RENGA_ERR_OPTION,
             "-plan_sweep asks for more than %d plans, the most that a table has: leave out values",
             SWEEP_MOST);
  RengaCall(RengaOptionsGetString("machine_file", &machine, &given));
  RengaCheck(given, sweep->printer, RENGA_ERR_OPTION,
             "-plan_sweep %s is for a machine: give -machine_file", text);
  return RENGA_SUCCESS;
}

/* Which value of an option a row has: those of the first option change least often. */
static const char *FindSweptValue(const Sweep *sweep, int row, int option)
{
  for (int o = sweep->n_options - 1; o > option; o--) row /= sweep->option[o].count;
  return sweep->option[option].value[row % sweep->option[option].count];
}

static RengaErrorCode SetSweptRow(const Sweep *sweep, int row)
{
  for (int o = 0; o < sweep->n_options; o++)
    RengaCall(SetSwept(sweep, sweep->option[o].option, FindSweptValue(sweep, row, o)));
  RengaCall(AppReopenLanes(&sweep->lanes));
  return RENGA_SUCCESS;
}

/* "batch_size 512, precision bf16" */
static void NameSweptRow(const Sweep *sweep, int row, int from, size_t size, char text[])
{
  text[0] = 0;
  for (int o = from; o < sweep->n_options; o++) {
    const size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s %s", o > from ? ", " : "", sweep->option[o].option,
             FindSweptValue(sweep, row, o));
  }
}

/* Before anything is planned: machines and partitions take what the rows say. */
static RengaErrorCode CheckSweep(const Sweep *sweep)
{
  char name[256];
  for (int i = 0; i < sweep->table.count; i++) {
    RengaCall(SetSweptRow(sweep, i));
    RengaErrorSetHandler(RengaErrorIgnore, NULL);
    const RengaErrorCode code = AppCheckMachinePlanning(sweep->comm);
    RengaErrorSetHandler(NULL, NULL);
    NameSweptRow(sweep, i, 0, sizeof name, name);
    RengaCheck(!code, sweep->printer, code, "-plan_sweep, %s: %s", name, RengaErrorGetMessage());
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeSweptRow(Sweep *sweep, int i)
{
  AppPlanRow *row = &sweep->table.rows[i];
  *row = (AppPlanRow){.curve = i % (sweep->table.count / sweep->option[0].count)};
  for (int o = 0; o < sweep->n_options; o++)
    snprintf(row->value[o], APP_SWEPT_VALUE, "%s", FindSweptValue(sweep, i, o));
  RengaCall(SetSweptRow(sweep, i));
  if (sweep->network && i > 0) {
    RengaCall(RengaGraphDestroy(&sweep->graph));
    RengaCall(AppLoadGraph(sweep->comm, NULL, &sweep->graph));
  }
  RengaCall(AppMakePlanRow(sweep->comm, sweep->graph, 0, row));
  RengaCheck(row->fits || row->code == RENGA_ERR_MEMORY || row->code == RENGA_ERR_PLAN ||
                 row->code == RENGA_ERR_OPTION || row->code == RENGA_ERR_SUPPORT,
             sweep->printer, row->code, "%s", row->refusal);
  return RENGA_SUCCESS;
}

/* Where each row is along the picture; words: the values of the first option are no numbers, and
   stand at equal distances. 0, by which an option says that Renga chooses, has no place. */
static void PlaceSweep(Sweep *sweep, bool *words)
{
  int64_t number[SWEEP_MOST] = {0};
  *words = false;
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  for (int v = 0; v < sweep->option[0].count; v++)
    *words = RengaParseBytes(sweep->option[0].value[v], &number[v]) != RENGA_SUCCESS || *words;
  RengaErrorSetHandler(NULL, NULL);
  for (int i = 0; i < sweep->table.count; i++) {
    const int v = (int)((int64_t)i * sweep->option[0].count / sweep->table.count);
    sweep->table.rows[i].place =
        *words ? (double)((int64_t)1 << (v < 62 ? v : 62)) : (double)number[v];
  }
}

static const AppPlanRow *FindBestRow(const AppPlanTable *table)
{
  const AppPlanRow *best = NULL;
  for (int i = 0; i < table->count; i++)
    if (table->rows[i].fits && (!best || table->rows[i].rate > best->rate)) best = &table->rows[i];
  return best;
}

static bool IsAtLeastAsGood(const AppPlanRow *row, const AppPlanRow *other)
{
  return row->used <= other->used && row->rate >= other->rate && row->memory <= other->memory;
}

/* The Pareto front of devices that are used, samples per second and memory of a device. Seconds of
   a step would be those of its samples, which rows may have different numbers of. */
static void FindFront(AppPlanTable *table)
{
  for (int i = 0; i < table->count; i++) {
    AppPlanRow *row = &table->rows[i];
    row->front = row->fits;
    for (int j = 0; j < table->count && row->front; j++) {
      const AppPlanRow *other = &table->rows[j];
      row->front = !other->fits || !IsAtLeastAsGood(other, row) || IsAtLeastAsGood(row, other);
    }
  }
}

/* The fastest first, what is refused last; equal ones as they were asked for. */
static void OrderPlanRows(const AppPlanTable *table)
{
  for (int i = 0; i < table->count; i++) {
    int at = i;
    const double rate = table->rows[i].fits ? table->rows[i].rate : -1;
    for (; at > 0; at--) {
      const AppPlanRow *before = &table->rows[table->order[at - 1]];
      if (rate <= (before->fits ? before->rate : -1)) break;
      table->order[at] = table->order[at - 1];
    }
    table->order[at] = i;
  }
}

/* Why what is refused is, and which row is best. */
static RengaErrorCode PrintSweepAnswers(const Sweep *sweep, RengaViewer viewer)
{
  const AppPlanTable *table = &sweep->table;
  const AppPlanRow *best = FindBestRow(table);
  char name[256], step[24];
  if (best)
    RengaCall(RengaViewerPrintf(viewer, "front, *: no other row is better in one of devices that "
                                        "are used, samples/s and memory of a device without "
                                        "being worse in another\n"));
  for (int i = 0; i < table->count; i++) {
    NameSweptRow(sweep, i, 0, sizeof name, name);
    if (!table->rows[i].fits)
      RengaCall(RengaViewerPrintf(viewer, "%s: %s\n", name, table->rows[i].refusal));
  }
  if (!best) return RENGA_SUCCESS;
  NameSweptRow(sweep, (int)(best - table->rows), 0, sizeof name, name);
  RengaFormatSeconds(best->prediction.step, sizeof step, step);
  RengaCall(
      RengaViewerPrintf(viewer, "most samples per second: %s, with %s per step\n", name, step));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawSweep(Sweep *sweep, const char *view)
{
  AppCurve curve = {.title = sweep->title,
                    .along = sweep->option[0].option,
                    .n_curves = sweep->table.count / sweep->option[0].count};
  PlaceSweep(sweep, &curve.words);
  RengaCall(RengaMalloc(curve.n_curves, &curve.names));
  for (int c = 0; c < curve.n_curves; c++)
    NameSweptRow(sweep, c, 1, sizeof curve.names[c], curve.names[c]);
  const RengaErrorCode code = AppDrawPlanTable(sweep->comm, view, &curve, &sweep->table);
  RengaFree(&curve.names);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowSweep(Sweep *sweep)
{
  const char *view = NULL;
  RengaViewer viewer = NULL;
  const AppPlanRow *best = FindBestRow(&sweep->table);
  for (int i = 0; i < sweep->table.count; i++)
    if (sweep->table.rows[i].fits)
      sweep->table.rows[i].efficiency = sweep->table.rows[i].rate / best->rate;
  FindFront(&sweep->table);
  OrderPlanRows(&sweep->table);
  RengaCall(AppOpenPlanTable(sweep->comm, &view, &viewer));
  RengaErrorCode code = AppPrintPlanTable(viewer, &sweep->table);
  if (!code) code = PrintSweepAnswers(sweep, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  RengaCall(DrawSweep(sweep, view));
  return RENGA_SUCCESS;
}

/* "v100, 4 nodes", as far as all rows have the same. */
static RengaErrorCode NameSweep(Sweep *sweep)
{
  const char *machine;
  bool varies = false;
  int64_t nodes = sweep->table.rows[0].nodes;
  for (int o = 0; o < sweep->n_options; o++)
    varies = varies || !strcmp(sweep->option[o].option, "machine_file");
  RengaCall(RengaOptionsGetString("machine_file", &machine, NULL));
  snprintf(sweep->title, sizeof sweep->title, "%s", varies ? "several machines" : machine);
  for (int i = 0; i < sweep->table.count; i++)
    varies = varies || sweep->table.rows[i].nodes != nodes;
  const size_t length = strlen(sweep->title);
  if (!varies)
    snprintf(sweep->title + length, sizeof sweep->title - length, ", %lld node%s", (long long)nodes,
             nodes == 1 ? "" : "s");
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSweep(Sweep *sweep)
{
  AppPlanTable *table = &sweep->table;
  RengaCall(CheckSweep(sweep));
  RengaCall(SetSweptRow(sweep, 0));
  RengaCall(AppLoadGraph(sweep->comm, NULL, &sweep->graph));
  RengaCall(AppReadBudget(sweep->comm, sweep->graph, &table->budget));
  RengaCall(RengaMalloc(table->count, &table->rows));
  RengaCall(RengaMalloc(table->count, &table->order));
  for (int i = 0; i < table->count; i++) RengaCall(MakeSweptRow(sweep, i));
  RengaCall(NameSweep(sweep));
  RengaCall(ShowSweep(sweep));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPlanSweep(const App *app)
{
  Sweep *sweep = NULL;
  RengaCall(RengaMalloc(1, &sweep));
  *sweep = (Sweep){.comm = app->comm, .table = {.compared = "of best"}};
  RengaErrorCode code = RengaObjectGetComm(app->comm, &sweep->printer);
  if (!code) code = AppRefuseOfOnePlan(app->comm);
  if (!code) code = ReadSweep(sweep, app);
  sweep->table.subject = sweep->title;
  sweep->table.n_along = sweep->n_options;
  for (int o = 0; o < sweep->n_options; o++) sweep->table.along[o] = sweep->option[o].option;
  sweep->table.count = CountSweptRows(sweep);
  if (!code) code = RunSweep(sweep);
  if (sweep->graph) RengaCall(RengaGraphDestroy(&sweep->graph));
  RengaFree(&sweep->table.rows);
  RengaFree(&sweep->table.order);
  RengaFree(&sweep);
  RengaCall(code);
  return RENGA_SUCCESS;
}
