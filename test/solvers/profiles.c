/* Profiles of PipeDream: lines of text for nodes, then for edges. */
#include "graphs.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 4096, MOST_EDGES = 16384, LINE = 4096 };

typedef struct {
  int nodes, edges;
  int id[MOST_NODES], item[MOST_NODES]; /* item -1: left out */
  bool input[MOST_NODES], get[MOST_NODES];
  RengaCutsItem cost[MOST_NODES];
  int edge[2 * MOST_EDGES];
} Text;

static double After(const char *line, const char *key)
{
  const char *at = strstr(line, key);
  return at ? strtod(at + strlen(key), NULL) : 0;
}

static void ReadLine(const char *line, Text *text)
{
  int from, to;
  if (sscanf(line, "\tnode%d -- node%d", &from, &to) == 2) {
    text->edge[2 * text->edges] = from;
    text->edge[2 * text->edges++ + 1] = to;
    return;
  }
  const char *kind = strstr(line, " -- ");
  if (sscanf(line, "node%d", &from) != 1 || !kind) return;
  int v = text->nodes++;
  text->id[v] = from;
  text->input[v] = !strncmp(kind + 4, "Input", 5);
  text->get[v] = !strncmp(kind + 4, "__getitem__", 11);
  text->cost[v] = (RengaCutsItem){
      .work = (After(line, "forward_compute_time=") + After(line, "backward_compute_time=")) / 1e3,
      .weight = After(line, "parameter_size=")};
}

static int FindItem(const Text *text, int id)
{
  for (int v = 0; v < text->nodes; v++)
    if (text->id[v] == id) return v;
  return -1;
}

/* Inputs that nothing leads to and gets that lead to nothing are left out, as in its
   optimizer. */
static int NumberItems(Text *text)
{
  static bool has_before[MOST_NODES], has_after[MOST_NODES];
  int items = 0;
  memset(has_before, 0, sizeof has_before);
  memset(has_after, 0, sizeof has_after);
  for (int e = 0; e < text->edges; e++) {
    has_after[FindItem(text, text->edge[2 * e])] = true;
    has_before[FindItem(text, text->edge[2 * e + 1])] = true;
  }
  for (int v = 0; v < text->nodes; v++) {
    bool left_out = (text->input[v] && !has_before[v]) || (text->get[v] && !has_after[v]);
    text->item[v] = left_out ? -1 : items++;
  }
  return items;
}

static RengaErrorCode Fill(Text *text, GraphsProfile *profile)
{
  int items = NumberItems(text), edges = 0;
  RengaCall(RengaMalloc(items + 1, &profile->item));
  RengaCall(RengaMalloc(2 * text->edges + 1, &profile->edge));
  RengaCall(RengaMalloc(1, &profile->message_first));
  for (int v = 0; v < text->nodes; v++)
    if (text->item[v] >= 0) profile->item[text->item[v]] = text->cost[v];
  for (int e = 0; e < text->edges; e++) {
    int from = text->item[FindItem(text, text->edge[2 * e])];
    int to = text->item[FindItem(text, text->edge[2 * e + 1])];
    if (from < 0 || to < 0) continue;
    profile->edge[2 * edges] = from;
    profile->edge[2 * edges++ + 1] = to;
  }
  profile->problem = (RengaCutsProblem){.items = items,
                                        .edges = edges,
                                        .item = profile->item,
                                        .edge = profile->edge,
                                        .message_first = profile->message_first,
                                        .capacity = HUGE_VAL};
  return RENGA_SUCCESS;
}

RengaErrorCode GraphsReadProfile(const char *name, GraphsProfile *profile)
{
  static Text text;
  char path[1000], line[LINE];
  memset(profile, 0, sizeof *profile);
  memset(&text, 0, sizeof text);
  snprintf(path, sizeof path, "%s/pipedream/profiles/%s/graph.txt", GraphsFolder(), name);
  FILE *file = fopen(path, "r");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s", path);
  while (text.nodes < MOST_NODES && text.edges < MOST_EDGES && fgets(line, sizeof line, file))
    ReadLine(line, &text);
  fclose(file);
  RengaCall(Fill(&text, profile));
  return RENGA_SUCCESS;
}

void GraphsFreeProfile(GraphsProfile *profile)
{
  RengaFree(&profile->item);
  RengaFree(&profile->edge);
  RengaFree(&profile->message_first);
}
