/* Graphs and reference values of others' planners. */
#include "graphs.h"
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *GraphsFolder(void)
{
  static char folder[900];
  const char *given = getenv("RENGA_GRAPHS"), *top = getenv("top_srcdir");
  if (given)
    snprintf(folder, sizeof folder, "%s", given);
  else
    snprintf(folder, sizeof folder, "%s/../shared/graphs", top ? top : ".");
  return access(folder, R_OK) == 0 ? folder : NULL;
}

static double ReadNumber(const char *text)
{
  if (!strcmp(text, "inf") || !strcmp(text, "none") || !strcmp(text, "NA")) return HUGE_VAL;
  return strtod(text, NULL);
}

/* workload, devices, hosts, memory, method, value, unit, seconds, note */
static bool ReadRow(char *line, GraphsReference *row)
{
  char *field[9];
  for (int f = 0; f < 9; f++) {
    field[f] = strsep(&line, "\t\n");
    if (field[f] == NULL) return false;
  }
  if (field[0][0] == '#' || !strcmp(field[0], "workload")) return false;
  snprintf(row->workload, sizeof row->workload, "%s", field[0]);
  snprintf(row->devices, sizeof row->devices, "%s", field[1]);
  row->hosts = atoi(field[2]);
  row->memory = ReadNumber(field[3]);
  snprintf(row->method, sizeof row->method, "%s", field[4]);
  row->value = ReadNumber(field[5]);
  snprintf(row->note, sizeof row->note, "%s", field[8]);
  return true;
}

RengaErrorCode GraphsReadReferences(int *count, GraphsReference **row)
{
  char path[1000], line[4096];
  int room = 1024;
  snprintf(path, sizeof path, "%s/reference.tsv", GraphsFolder());
  FILE *file = fopen(path, "r");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s", path);
  RengaCall(RengaMalloc(room, row));
  *count = 0;
  while (*count < room && fgets(line, sizeof line, file))
    if (ReadRow(line, &(*row)[*count])) (*count)++;
  fclose(file);
  return RENGA_SUCCESS;
}

static double Get(json_object *object, const char *key)
{
  json_object *value = NULL;
  return json_object_object_get_ex(object, key, &value) ? json_object_get_double(value) : 0;
}

static RengaErrorCode ReadNodes(json_object *list, RengaCutsNode **node)
{
  int count = (int)json_object_array_length(list);
  RengaCall(RengaMalloc(count + 1, node));
  for (int v = 0; v < count; v++) {
    json_object *from = json_object_array_get_idx(list, (size_t)v), *colour = NULL;
    bool coloured = json_object_object_get_ex(from, "colorClass", &colour);
    (*node)[v] = (RengaCutsNode){.item = {.work = Get(from, "fpgaLatency"),
                                          .host_work = Get(from, "cpuLatency"),
                                          .memory = Get(from, "size"),
                                          .host_only = Get(from, "supportedOnFpga") == 0},
                                 .colour = coloured ? json_object_get_int(colour) : -1 - v,
                                 .backward = Get(from, "isBackwardNode") != 0};
  }
  return RENGA_SUCCESS;
}

static int FindNode(json_object *nodes, int id)
{
  int count = (int)json_object_array_length(nodes);
  int guess = id < count ? id : 0; /* ids are mostly in order */
  for (int i = 0; i < count; i++) {
    int v = (guess + i) % count;
    if ((int)Get(json_object_array_get_idx(nodes, (size_t)v), "id") == id) return v;
  }
  return -1;
}

static RengaErrorCode ReadEdges(json_object *nodes, json_object *list, RengaCutsNode node[],
                                int **edge)
{
  int count = (int)json_object_array_length(list);
  RengaCall(RengaMalloc(2 * count + 1, edge));
  for (int e = 0; e < count; e++) {
    json_object *from = json_object_array_get_idx(list, (size_t)e);
    int source = FindNode(nodes, (int)Get(from, "sourceId"));
    (*edge)[2 * e] = source;
    (*edge)[2 * e + 1] = FindNode(nodes, (int)Get(from, "destId"));
    if (source >= 0) node[source].message = Get(from, "cost");
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Colour(json_object *file, RengaCutsColoured *coloured)
{
  json_object *nodes = NULL, *edges = NULL;
  RengaCutsNode *node = NULL;
  int *edge = NULL;
  json_object_object_get_ex(file, "nodes", &nodes);
  json_object_object_get_ex(file, "edges", &edges);
  RengaCheck(nodes && edges, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "no nodes and edges");
  RengaCall(ReadNodes(nodes, &node));
  RengaCall(ReadEdges(nodes, edges, node, &edge));
  RengaCall(RengaCutsCreateColoured((int)json_object_array_length(nodes), node,
                                    (int)json_object_array_length(edges), edge, coloured));
  coloured->problem.capacity = Get(file, "maxSizePerFPGA");
  coloured->problem.devices = (int)Get(file, "maxFPGAs");
  coloured->problem.hosts = (int)Get(file, "maxCPUs");
  RengaFree(&node);
  RengaFree(&edge);
  return RENGA_SUCCESS;
}

RengaErrorCode GraphsReadColoured(const char *name, RengaCutsColoured *coloured)
{
  char path[1000];
  snprintf(path, sizeof path, "%s/dnn-partitioning/throughput-inputs/%s.json", GraphsFolder(),
           name);
  json_object *file = json_object_from_file(path);
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s", path);
  RengaErrorCode code = Colour(file, coloured);
  json_object_put(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

enum { OPTIONS = 2 };
static const int degrees[] = {1, 2, 4, 8};
enum { DEGREES = sizeof degrees / sizeof degrees[0] };

/* The options of a node at a degree; NULL: it is not offered. */
static json_object *GetOptions(json_object *node, int degree)
{
  json_object *all = NULL, *options = NULL;
  char key[16];
  snprintf(key, sizeof key, "%d", degree);
  json_object_object_get_ex(node, "TMPCs", &all);
  return json_object_object_get_ex(all, key, &options) ? options : NULL;
}

static RengaErrorCode ReadOptions(json_object *node, int v, GraphsShards *shards)
{
  for (int t = 0; t < DEGREES; t++) {
    json_object *options = GetOptions(node, degrees[t]);
    int row = v * DEGREES + t;
    shards->offered[row] = options != NULL;
    if (!options) continue;
    RengaCheck(json_object_array_length(options) == OPTIONS, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "node %d has not %d options", v, OPTIONS);
    for (int o = 0; o < OPTIONS; o++) {
      json_object *from = json_object_array_get_idx(options, (size_t)o);
      shards->weight[row] = Get(from, "parameterSize");
      shards->option[row * OPTIONS + o] =
          (RengaCutsOption){.seconds = Get(from, "timePerSample"),
                            .memory_each = Get(from, "memoryUsageA"),
                            .memory_once = Get(from, "memoryUsageB")};
    }
  }
  return RENGA_SUCCESS;
}

/* More bytes of an edge for a node at a degree; key: the node at its other end. */
static double GetMore(json_object *node, int degree, const char *name, int other)
{
  json_object *options = GetOptions(node, degree), *table = NULL;
  char key[16];
  if (!options) return 0;
  snprintf(key, sizeof key, "%d", other);
  json_object_object_get_ex(json_object_array_get_idx(options, 0), name, &table);
  return Get(table, key);
}

static void ReadShardEdges(json_object *nodes, json_object *list, GraphsShards *shards)
{
  for (int e = 0; e < shards->problem.edges; e++) {
    json_object *from = json_object_array_get_idx(list, (size_t)e);
    int id[2] = {(int)Get(from, "sourceId"), (int)Get(from, "destId")};
    json_object *node[2];
    for (int side = 0; side < 2; side++) {
      shards->edge[2 * e + side] = FindNode(nodes, id[side]);
      node[side] = json_object_array_get_idx(nodes, (size_t)shards->edge[2 * e + side]);
    }
    shards->edge_bytes[e] = Get(from, "communicationCost");
    for (int t = 0; t < DEGREES; t++) {
      shards->send_bytes[e * DEGREES + t] = GetMore(node[0], degrees[t], "syncTimeBw", id[1]);
      shards->receive_bytes[e * DEGREES + t] = GetMore(node[1], degrees[t], "syncTimeFw", id[0]);
    }
  }
}

static RengaErrorCode FillShards(json_object *nodes, json_object *edges, GraphsShards *shards)
{
  int items = (int)json_object_array_length(nodes), count = (int)json_object_array_length(edges);
  RengaCall(RengaMalloc(2 * count + 1, &shards->edge));
  RengaCall(RengaMalloc(DEGREES, &shards->degree));
  RengaCall(RengaMalloc(count + 1, &shards->edge_bytes));
  RengaCall(RengaMalloc(items * DEGREES, &shards->weight));
  RengaCall(RengaMalloc(count * DEGREES + 1, &shards->receive_bytes));
  RengaCall(RengaMalloc(count * DEGREES + 1, &shards->send_bytes));
  RengaCall(RengaMalloc(items * DEGREES, &shards->offered));
  RengaCall(RengaMalloc(items * DEGREES * OPTIONS, &shards->option));
  memcpy(shards->degree, degrees, sizeof degrees);
  shards->problem = (RengaCutsShardProblem){.items = items,
                                            .edges = count,
                                            .degrees = DEGREES,
                                            .options = OPTIONS,
                                            .edge = shards->edge,
                                            .edge_bytes = shards->edge_bytes,
                                            .degree = shards->degree,
                                            .offered = shards->offered,
                                            .weight = shards->weight,
                                            .option = shards->option,
                                            .receive_bytes = shards->receive_bytes,
                                            .send_bytes = shards->send_bytes};
  for (int v = 0; v < items; v++)
    RengaCall(ReadOptions(json_object_array_get_idx(nodes, (size_t)v), v, shards));
  ReadShardEdges(nodes, edges, shards);
  return RENGA_SUCCESS;
}

RengaErrorCode GraphsReadShards(const char *name, GraphsShards *shards)
{
  char path[1000];
  json_object *nodes = NULL, *edges = NULL;
  memset(shards, 0, sizeof *shards);
  snprintf(path, sizeof path, "%s/piper/inputs/%s.json", GraphsFolder(), name);
  json_object *file = json_object_from_file(path);
  RengaCheck(file && json_object_object_get_ex(file, "nodes", &nodes) &&
                 json_object_object_get_ex(file, "edges", &edges),
             MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s", path);
  RengaErrorCode code = FillShards(nodes, edges, shards);
  json_object_put(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void GraphsFreeShards(GraphsShards *shards)
{
  RengaFree(&shards->edge);
  RengaFree(&shards->degree);
  RengaFree(&shards->edge_bytes);
  RengaFree(&shards->weight);
  RengaFree(&shards->receive_bytes);
  RengaFree(&shards->send_bytes);
  RengaFree(&shards->offered);
  RengaFree(&shards->option);
}
