/* The state of a run on a terminal: a bar, its numbers, a line per rank; elsewhere one line. */
#include "view.h"
#include "renga/private/number.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 16, BAR = 40 };

/* "", or ", 1:15 left". */
static void FormatLeft(double seconds, size_t size, char text[])
{
  const long long whole = seconds < 1e9 ? (long long)(seconds + 0.5) : 1000000000;
  text[0] = '\0';
  if (seconds >= 0 && whole < 3600)
    snprintf(text, size, ", %lld:%02lld left", whole / 60, whole % 60);
  else if (seconds >= 0)
    snprintf(text, size, ", %lld:%02lld:%02lld left", whole / 3600, whole / 60 % 60, whole % 60);
}

static void PutBar(FILE *file, const AppView *view)
{
  char left[64];
  FormatLeft(view->left, sizeof left, left);
  if (view->steps > 0) {
    const int full = (int)((double)BAR * (double)(view->step + 1) / (double)view->steps);
    fputc('[', file);
    for (int i = 0; i < BAR; i++) fputc(i < full ? '#' : '.', file);
    fprintf(file, "] step %lld of %lld%s\n", (long long)view->step + 1, (long long)view->steps,
            left);
  } else {
    fprintf(file, "step %lld\n", (long long)view->step + 1);
  }
}

static void PutNumbers(FILE *file, const AppView *view)
{
  char rate[32], tokens[48] = "", age[64] = "";
  if (view->tokens > 0) {
    RengaFormatCount(view->rate * (double)view->tokens, sizeof rate, rate);
    snprintf(tokens, sizeof tokens, " (%s tokens/s)", rate);
  }
  if (view->age >= 10 + 2 * view->seconds)
    RengaTextFormat(age, sizeof age, "  no step has ended for %.0f s", view->age);
  RengaFormatCount(view->rate, sizeof rate, rate);
  RengaFilePrint(file,
                 "loss %.5g  learning rate %.3g  gradient norm %.4g\n"
                 "%s samples/s%s  %.4g s per step%s\n",
                 view->loss, view->learning_rate, view->gradient_norm, rate, tokens, view->seconds,
                 age);
}

static void PutFound(FILE *file, const AppView *view)
{
  RengaFilePrint(file, "validation loss %.6g", view->validation_loss);
  if (view->perplexity > 0) RengaFilePrint(file, " perplexity %.5g", view->perplexity);
  if (view->accuracy >= 0) RengaFilePrint(file, " accuracy %.2f %%", 100 * view->accuracy);
  fprintf(file, " after step %lld\n", (long long)view->validated + 1);
}

static void PutRanks(FILE *file, const AppView *view)
{
  if (view->ranks == 0) return;
  fprintf(file, "%5s  %-24s %-16s %10s %11s %9s\n", "rank", "computes", "on", "step", "s per step",
          "heard of");
  for (int r = 0; r < view->ranks && r < MOST_RANKS; r++) {
    const AppViewRank *rank = &view->rank[r];
    fprintf(file, "%5d  %-24s %-16s ", r, rank->place, rank->node);
    if (rank->step >= 0)
      RengaFilePrint(file, "%10lld %11.4g %5.1f s ago", (long long)rank->step + 1, rank->seconds,
                     rank->age);
    fputc('\n', file);
  }
  if (view->ranks > MOST_RANKS) fprintf(file, "and %d more ranks\n", view->ranks - MOST_RANKS);
}

static void PutView(FILE *file, const AppView *view)
{
  fprintf(file, "%s%s%s\n", view->name, *view->phase ? ": " : "", view->phase);
  PutBar(file, view);
  if (view->step >= 0) PutNumbers(file, view);
  if (view->validated >= 0) PutFound(file, view);
  PutRanks(file, view);
}

/* A letter that steers a terminal: of ASCII, or the second byte of U+0080 to U+009F in UTF-8. */
static bool Steers(const char *line, int at)
{
  const unsigned char letter = (unsigned char)line[at];
  if (letter < ' ' || letter == 127) return true;
  return at > 0 && (unsigned char)line[at - 1] == 0xc2 && letter >= 0x80 && letter < 0xa0;
}

/* What came from elsewhere must not steer the terminal. */
static void PrintCut(const char *line, int length, int columns)
{
  for (int i = 0; i < length && (columns <= 0 || i < columns - 1); i++)
    putchar(Steers(line, i) ? '?' : line[i]);
}

void AppViewDraw(const AppView *view, int columns, int *lines)
{
  char *text = NULL;
  size_t length;
  FILE *file = open_memstream(&text, &length);
  if (!file) return;
  PutView(file, view);
  fclose(file);
  if (*lines > 0) printf("\033[%dA", *lines);
  *lines = 0;
  for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    PrintCut(line, (int)(end - line), columns);
    printf(columns > 0 ? "\033[K\n" : "\n");
    ++*lines;
  }
  if (columns > 0) printf("\033[J");
  fflush(stdout);
  free(text);
}

void AppViewPrintLine(const AppView *view)
{
  char rate[32], left[64], of[32] = "";
  FormatLeft(view->left, sizeof left, left);
  RengaFormatCount(view->rate, sizeof rate, rate);
  if (view->steps > 0) snprintf(of, sizeof of, "/%lld", (long long)view->steps);
  RengaFilePrint(stdout, "step %lld%s  loss %.5g  %s samples/s%s\n", (long long)view->step + 1, of,
                 view->loss, rate, left);
  fflush(stdout);
}
