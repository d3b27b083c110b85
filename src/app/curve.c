/* Samples per second over devices, or over values of an option, as a picture (SVG) of two
   logarithmic axes; over devices with what every device as good as those of the fewest nodes would
   give. */
#include "app.h"
#include "renga/private/number.h"
#include <math.h>
#include <string.h>

#define WIDTH 820.0
#define LEFT 90.0
#define RIGHT 760.0
#define TOP 70.0
#define BOTTOM 450.0

typedef struct {
  double low_x, high_x, low_y, high_y; /* logarithms of base 2 */
} Axes;

static const char *const colours[] = {"#4477aa", "#cc6677", "#228833", "#aa8822",
                                      "#66aacc", "#aa3377", "#777777", "#000000"};
enum { N_COLOURS = sizeof colours / sizeof colours[0] };

/* Of names of the user: what would be markup is a blank. */
static const char *WithoutMarkup(char text[])
{
  for (char *at = text; *at; at++)
    if (strchr("<>&\"'", *at) || (unsigned char)*at < ' ') *at = ' ';
  return text;
}

static double PlaceX(const Axes *axes, double devices)
{
  return LEFT + 40 +
         (RIGHT - LEFT - 80) * (log2(devices) - axes->low_x) /
             fmax(1e-9, axes->high_x - axes->low_x);
}

static double PlaceY(const Axes *axes, double rate)
{
  return BOTTOM - (BOTTOM - TOP) * (log2(rate) - axes->low_y) / (axes->high_y - axes->low_y);
}

/* 0, by which an option says that Renga chooses, has no place on a logarithmic axis. */
static bool HasPlace(const AppPlanRow *row)
{
  return row->place > 0;
}

static const AppPlanRow *FindFirstPoint(int count, const AppPlanRow rows[])
{
  const AppPlanRow *first = NULL;
  for (int i = 0; i < count; i++)
    if (rows[i].fits && HasPlace(&rows[i]) && (!first || rows[i].place < first->place))
      first = &rows[i];
  return first;
}

static void FindAxes(const AppCurve *curve, int count, const AppPlanRow rows[],
                     const AppPlanRow *first, Axes *axes)
{
  *axes = (Axes){HUGE_VAL, -HUGE_VAL, HUGE_VAL, -HUGE_VAL};
  for (int i = 0; i < count; i++) {
    if (!HasPlace(&rows[i])) continue;
    const double x = log2(rows[i].place);
    const double ideal = log2(first->rate) + (curve->ideal ? x - log2(first->place) : 0);
    axes->low_x = fmin(axes->low_x, x);
    axes->high_x = fmax(axes->high_x, x);
    axes->high_y = fmax(axes->high_y, ideal);
    if (!rows[i].fits) continue;
    axes->low_y = fmin(axes->low_y, log2(rows[i].rate));
    axes->high_y = fmax(axes->high_y, log2(rows[i].rate));
  }
  axes->low_y = floor(axes->low_y - 0.2);
  axes->high_y = fmax(axes->low_y + 1, ceil(axes->high_y + 0.1));
}

/* "40", "52.4 k": without powers of ten. */
static const char *NameNumber(double number, size_t size, char text[])
{
  if (number < 1e4)
    RengaTextFormat(text, size, "%.4g", number);
  else
    RengaFormatCount(number, size, text);
  return text;
}

/* Devices, or values of an option: whole numbers in full. */
static void NamePlace(double place, size_t size, char text[])
{
  if (place == floor(place) && place < 1e7)
    RengaTextFormat(text, size, "%.0f", place);
  else
    NameNumber(place, size, text);
}

/* Round numbers of each power of ten, the more the fewer powers there are. */
typedef struct {
  int count;
  double of_ten[8];
} TickSet;
static const TickSet tick_sets[] = {{8, {1, 1.5, 2, 3, 4, 5, 6, 8}}, {3, {1, 2, 5}}, {1, {1}}};
enum { N_TICK_SETS = sizeof tick_sets / sizeof tick_sets[0], TICKS_MOST = 10 };

/* Those between two logarithms of base 2, every n-th power of ten; ticks NULL: only how many. */
static int ListTicks(const TickSet *set, int every, const Axes *axes, double ticks[])
{
  const int low = (int)floor(axes->low_y * log10(2)), high = (int)ceil(axes->high_y * log10(2));
  int count = 0;
  for (int power = low; power <= high; power++)
    for (int i = 0; i < set->count && power % every == 0; i++) {
      const double tick = set->of_ten[i] * pow(10, power), y = log2(tick);
      if (y < axes->low_y - 1e-9 || y > axes->high_y + 1e-9) continue;
      if (ticks && count < TICKS_MOST) ticks[count] = tick;
      count++;
    }
  return count;
}

static int ChooseTicks(const Axes *axes, double ticks[])
{
  int set = 0, every = 1;
  while (set < N_TICK_SETS - 1 && ListTicks(&tick_sets[set], 1, axes, NULL) > TICKS_MOST) set++;
  while (ListTicks(&tick_sets[set], every, axes, NULL) > TICKS_MOST) every++;
  return ListTicks(&tick_sets[set], every, axes, ticks);
}

static RengaErrorCode DrawAxes(RengaViewer viewer, const AppCurve *curve, const Axes *axes)
{
  double ticks[TICKS_MOST];
  const int count = ChooseTicks(axes, ticks);
  char text[32];
  for (int i = 0; i < count; i++) {
    const double y = PlaceY(axes, ticks[i]);
    RengaCall(RengaViewerPrintf(viewer,
                                "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#dddddd\"/>\n"
                                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                                LEFT, y, RIGHT, LEFT - 8, y + 4,
                                NameNumber(ticks[i], sizeof text, text)));
  }
  RengaCall(RengaViewerPrintf(
      viewer,
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s%s</text>\n"
      "<text x=\"%.1f\" y=\"%.1f\">samples/s (logarithmic)%s</text>\n",
      (LEFT + RIGHT) / 2, BOTTOM + 62, curve->along, curve->words ? "" : " (logarithmic)", LEFT,
      TOP - 14, curve->ideal ? "; dashed: as many per device as on the fewest that fit" : ""));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawIdeal(RengaViewer viewer, const Axes *axes, const AppPlanRow *first)
{
  const double last = exp2(axes->high_x), rate = first->rate * last / first->place;
  RengaCall(RengaViewerPrintf(viewer,
                              "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#999999\" "
                              "stroke-dasharray=\"5 4\"/>\n",
                              PlaceX(axes, first->place), PlaceY(axes, first->rate),
                              PlaceX(axes, last), PlaceY(axes, rate)));
  return RENGA_SUCCESS;
}

/* About, of letters as large as these. */
static double WidthOf(const char *text)
{
  return 6.6 * (double)strlen(text);
}

/* In the middle over x, or as far from there as the picture's edge wants. */
static double MiddleWithin(double x, const char *text)
{
  const double half = WidthOf(text) / 2;
  return fmax(half + 4, fmin(x, WIDTH - 4 - half));
}

/* Below the axis, of a picture with one curve: its layout, or that there is none. */
static RengaErrorCode DrawShape(RengaViewer viewer, double x, const AppPlanRow *row)
{
  const char *text = row->fits ? row->shape : "no room";
  RengaCall(RengaViewerPrintf(
      viewer, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"%s\">%s</text>\n",
      MiddleWithin(x, text), BOTTOM + 38, row->fits ? "#555555" : "#bb0000", text));
  return RENGA_SUCCESS;
}

/* To the right of its point, or to the left where the picture ends. */
static RengaErrorCode DrawRate(RengaViewer viewer, double x, double y, const AppPlanRow *row)
{
  char rate[32], text[64];
  RengaTextFormat(text, sizeof text, "%s (%.0f %%)", NameNumber(row->rate, sizeof rate, rate),
                  100 * row->efficiency);
  const bool left = x + 7 + WidthOf(text) > WIDTH - 4;
  RengaCall(RengaViewerPrintf(
      viewer, "<text x=\"%.1f\" y=\"%.1f\" fill=\"#4477aa\" text-anchor=\"%s\">%s</text>\n",
      left ? x - 7 : x + 7, y + 14, left ? "end" : "start", text));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawRow(RengaViewer viewer, const AppCurve *curve, const Axes *axes,
                              const AppPlanRow *row)
{
  const double x = PlaceX(axes, row->place), y = row->fits ? PlaceY(axes, row->rate) : 0;
  const bool single = curve->n_curves == 1;
  char label[APP_SWEPT_VALUE], rate[32];
  if (curve->words)
    snprintf(label, sizeof label, "%s", row->value[0]);
  else
    NamePlace(row->place, sizeof label, label);
  if (row->curve == 0)
    RengaCall(RengaViewerPrintf(viewer,
                                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                                MiddleWithin(x, label), BOTTOM + 20, WithoutMarkup(label)));
  if (single) RengaCall(DrawShape(viewer, x, row));
  if (!row->fits) return RENGA_SUCCESS;
  RengaCall(RengaViewerPrintf(viewer,
                              "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"><title>%s: "
                              "%s samples/s</title></circle>\n",
                              x, y, colours[row->curve % N_COLOURS], row->shape,
                              NameNumber(row->rate, sizeof rate, rate)));
  if (single) RengaCall(DrawRate(viewer, x, y, row));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawCurve(RengaViewer viewer, const AppCurve *curve, int which,
                                const Axes *axes, int count, const AppPlanRow rows[])
{
  const char *colour = colours[which % N_COLOURS], *command = "M";
  RengaCall(RengaViewerPrintf(viewer, "<path fill=\"none\" stroke=\"%s\" d=\"", colour));
  for (int i = 0; i < count; i++) {
    if (rows[i].curve != which || !rows[i].fits || !HasPlace(&rows[i])) continue;
    RengaCall(RengaViewerPrintf(viewer, "%s%.1f %.1f", command, PlaceX(axes, rows[i].place),
                                PlaceY(axes, rows[i].rate)));
    command = "L";
  }
  RengaCall(RengaViewerPrintf(viewer, "\" stroke-width=\"1.5\"/>\n"));
  for (int i = 0; i < count; i++)
    if (rows[i].curve == which && HasPlace(&rows[i]))
      RengaCall(DrawRow(viewer, curve, axes, &rows[i]));
  if (curve->n_curves > 1)
    RengaCall(RengaViewerPrintf(viewer, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">%s</text>\n", LEFT,
                                BOTTOM + 86 + 16.0 * which, colour,
                                WithoutMarkup(curve->names[which])));
  return RENGA_SUCCESS;
}

RengaErrorCode AppDrawRows(RengaViewer viewer, const AppCurve *curve, int count,
                           const AppPlanRow rows[])
{
  Axes axes;
  const AppPlanRow *first = FindFirstPoint(count, rows);
  const int height = 530 + (curve->n_curves > 1 ? 16 * curve->n_curves : 0);
  RengaCall(RengaViewerPrintf(
      viewer,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"820\" height=\"%d\" "
      "viewBox=\"0 0 820 %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"%.1f\" y=\"30\" font-size=\"16\" font-weight=\"bold\">%s on %s</text>\n",
      height, height, LEFT, first ? "predicted throughput" : "nothing fits", curve->title));
  if (first) {
    FindAxes(curve, count, rows, first, &axes);
    RengaCall(DrawAxes(viewer, curve, &axes));
    if (curve->ideal) RengaCall(DrawIdeal(viewer, &axes, first));
    for (int c = 0; c < curve->n_curves; c++)
      RengaCall(DrawCurve(viewer, curve, c, &axes, count, rows));
  }
  RengaCall(RengaViewerPrintf(viewer, "</svg>\n"));
  return RENGA_SUCCESS;
}
