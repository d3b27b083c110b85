/* renga watch PLACE: follow a run by its rows or by its page. */
#include "view.h"
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  AppRunFile file; /* one of the two is there */
  AppRunPage page;
  AppView view;
  double every;
  bool once;
  int columns, lines; /* columns 0: no terminal */
} RunWatch;

static RengaErrorCode OpenPlace(RunWatch *watch, const char *place)
{
  struct stat found;
  if (stat(place, &found) == 0) {
    RengaCall(AppTokenRefuse(MPI_COMM_SELF, "files of rows need none"));
    RengaCall(AppRunFileOpen(place, &watch->file));
  } else {
    RengaCall(AppRefuseUnused(MPI_COMM_SELF, "steps", "the page of a run says how many it does"));
    RengaCall(AppRunPageOpen(place, &watch->page));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Look(RunWatch *watch, bool *over)
{
  if (watch->file)
    RengaCall(AppRunFileLook(watch->file, &watch->view, over));
  else
    RengaCall(AppRunPageLook(watch->page, &watch->view, over));
  return RENGA_SUCCESS;
}

static RengaErrorCode FollowRun(RunWatch *watch)
{
  const struct timespec pause = {(time_t)watch->every,
                                 (long)(1e9 * (watch->every - (double)(time_t)watch->every))};
  for (bool over = false; !over;) {
    const int64_t before = watch->view.step;
    RengaCall(Look(watch, &over));
    if (watch->columns > 0 || watch->once)
      AppViewDraw(&watch->view, watch->columns, &watch->lines);
    else if (watch->view.step != before)
      AppViewPrintLine(&watch->view);
    if (watch->once) break;
    if (!over) nanosleep(&pause, NULL);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WatchPlace(const char *place)
{
  RunWatch watch = {.view = {.step = -1, .validated = -1, .accuracy = -1, .left = -1}};
  int columns;
  RengaCall(RengaOptionsGetReal("watch_every", &watch.every, NULL));
  RengaCall(RengaOptionsGetBool("watch_once", &watch.once, NULL));
  if (AppTerminal(STDOUT_FILENO, &columns)) watch.columns = columns;
  RengaCall(OpenPlace(&watch, place));
  const RengaErrorCode code = FollowRun(&watch);
  if (watch.file) AppRunFileClose(&watch.file);
  if (watch.page) AppRunPageClose(&watch.page);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppWatch(const App *app)
{
  RengaErrorCode code = RENGA_SUCCESS;
  const MPI_Comm printer = AppPrinter(app->comm);
  RengaCheck(RengaCommGetSize(app->comm) == 1, printer, RENGA_ERR_OPTION,
             "renga watch is for one process: start it without mpiexec");
  code = WatchPlace(app->words[0]);
  RengaCall(RengaErrorAgree(printer, code));
  return RENGA_SUCCESS;
}
