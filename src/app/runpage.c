/* A run by its page: what -monitor http answers as JSON. */
#include "view.h"
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_object Json;
struct _AppRunPage {
  char *text, *token; /* text: what host and port are parts of */
  AppAddress address;
  AppViewRank *rank;
  int room;
  bool seen;
};

/* "http://host:port/?token=…", "host:port", "[::1]:port"; false: it is none of these. */
static bool SplitPlace(AppRunPage page)
{
  static const char scheme[] = "http://", key[] = "?token=";
  char *host = page->text, *end;
  if (!strncmp(host, scheme, sizeof scheme - 1)) host += sizeof scheme - 1;
  if ((end = strchr(host, '/')) != NULL) {
    char *token = strstr(end, key);
    *end = '\0';
    if (token) page->address.token = token + sizeof key - 1;
  }
  char *port = strrchr(host, ':');
  if (!port || port == host || strlen(port) < 2 || port[1 + strspn(port + 1, "0123456789")])
    return false;
  *port++ = '\0';
  end = host + strlen(host) - 1;
  if (*host == '[' && *end == ']') host++, *end = '\0';
  page->address.host = host;
  page->address.port = port;
  return true;
}

static RengaErrorCode SetPlace(AppRunPage page, const char *place)
{
  RengaCall(RengaStringCopy(place, &page->text));
  RengaCheck(SplitPlace(page), MPI_COMM_SELF, RENGA_ERR_OPTION,
             "renga watch %s: there is no such folder or file, nor is it HOST:PORT", place);
  RengaCall(AppTokenFind(&page->token));
  if (page->token) page->address.token = page->token;
  return RENGA_SUCCESS;
}

RengaErrorCode AppRunPageOpen(const char *place, AppRunPage *page)
{
  AppRunPage made;
  RengaCall(RengaMalloc(1, &made));
  const RengaErrorCode code = SetPlace(made, place);
  if (code) AppRunPageClose(&made);
  RengaCall(code);
  *page = made;
  return RENGA_SUCCESS;
}

static Json *PickMember(Json *object, const char *name)
{
  Json *member = NULL;
  json_object_object_get_ex(object, name, &member);
  return member;
}

static double RealOf(Json *object, const char *name, double otherwise)
{
  Json *member = PickMember(object, name);
  return member ? json_object_get_double(member) : otherwise;
}

static int64_t WholeOf(Json *object, const char *name, int64_t otherwise)
{
  Json *member = PickMember(object, name);
  return member ? json_object_get_int64(member) : otherwise;
}

static void TextOf(Json *object, const char *name, size_t size, char text[])
{
  const char *found = json_object_get_string(PickMember(object, name));
  snprintf(text, size, "%s", found ? found : "");
}

/* The last of a column; otherwise where it has none. */
static double LastOf(Json *object, const char *name, double otherwise)
{
  Json *column = PickMember(object, name);
  if (!json_object_is_type(column, json_type_array)) return otherwise;
  const size_t length = json_object_array_length(column);
  Json *last = length ? json_object_array_get_idx(column, length - 1) : NULL;
  return last ? json_object_get_double(last) : otherwise;
}

static void TakeLastRow(Json *state, AppView *view)
{
  Json *last = PickMember(state, "last"), *found = PickMember(state, "validations");
  view->step = WholeOf(last, "step", view->first - 1);
  view->loss = RealOf(last, "loss", NAN);
  view->learning_rate = RealOf(last, "learning_rate", NAN);
  view->gradient_norm = RealOf(last, "gradient_norm", NAN);
  view->rate = RealOf(last, "samples_per_second", 0);
  view->seconds = RealOf(last, "seconds", 0);
  view->age = RealOf(last, "age", -1);
  view->left = RealOf(state, "seconds_left", -1);
  view->validated = (int64_t)LastOf(found, "step", -1);
  view->validation_loss = LastOf(found, "loss", NAN);
  view->perplexity = LastOf(found, "perplexity", 0);
  view->accuracy = LastOf(found, "accuracy", -1);
}

static RengaErrorCode TakeViewRanks(AppRunPage page, Json *state, AppView *view)
{
  Json *ranks = PickMember(state, "ranks");
  const size_t all =
      json_object_is_type(ranks, json_type_array) ? json_object_array_length(ranks) : 0;
  const int count = all < 1000000 ? (int)all : 0;
  if (count > page->room) {
    RengaCall(RengaRealloc(count, &page->rank));
    page->room = count;
  }
  for (int r = 0; r < count; r++) {
    Json *row = json_object_array_get_idx(ranks, (size_t)r);
    AppViewRank *rank = &page->rank[r];
    TextOf(row, "place", sizeof rank->place, rank->place);
    TextOf(row, "node", sizeof rank->node, rank->node);
    rank->step = WholeOf(row, "step", -1);
    rank->seconds = RealOf(row, "seconds", 0);
    rank->age = RealOf(row, "age", 0);
  }
  view->ranks = count;
  view->rank = page->rank;
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeState(AppRunPage page, const char *text, AppView *view)
{
  Json *state = json_tokener_parse(text);
  const bool ours = WholeOf(state, "format", 0) == 1;
  if (!ours) json_object_put(state);
  RengaCheck(ours, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "renga watch: %s:%s answers, but not with the state of a run of this Renga",
             page->address.host, page->address.port);
  TextOf(state, "network", sizeof view->name, view->name);
  TextOf(state, "phase", sizeof view->phase, view->phase);
  view->first = WholeOf(state, "first", 0);
  view->steps = WholeOf(state, "steps", 0);
  view->tokens = WholeOf(state, "tokens", 0);
  TakeLastRow(state, view);
  const RengaErrorCode code = TakeViewRanks(page, state, view);
  json_object_put(state);
  RengaCall(code);
  page->seen = true;
  return RENGA_SUCCESS;
}

/* Nobody answers any more. */
static void SayOver(const AppView *view)
{
  const bool done = view->steps > 0 && view->step + 1 >= view->steps;
  printf(done
             ? "the run has done all its steps and has ended\n"
             : "the run does not answer any more: it has ended after step %lld or later, or cannot "
               "be reached\n",
         (long long)view->step + 1);
}

RengaErrorCode AppRunPageLook(AppRunPage page, AppView *view, bool *over)
{
  char why[256] = "", *body;
  const AppAddress *address = &page->address;
  const int status = AppFetch(address, "/state.json", sizeof why, why, &body);
  *over = status == 0 && page->seen;
  if (*over) SayOver(view);
  RengaErrorCode code = status == 200 ? TakeState(page, body, view) : RENGA_SUCCESS;
  free(body);
  RengaCall(code);
  RengaCheck(status || *over, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "renga watch: no run answers at %s:%s: %s", address->host, address->port, why);
  RengaCheck(status != 403, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "renga watch: %s:%s wants its token: give the whole address that the run printed, or "
             "-monitor_token_file",
             address->host, address->port);
  RengaCheck(status == 200 || *over, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "renga watch: %s:%s answers with status %d: it is no page of a run", address->host,
             address->port, status);
  return RENGA_SUCCESS;
}

void AppRunPageClose(AppRunPage *page)
{
  RengaFree(&(*page)->text);
  RengaFree(&(*page)->token);
  RengaFree(&(*page)->rank);
  RengaFree(page);
}
