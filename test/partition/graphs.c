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
