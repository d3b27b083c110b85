/* Samples per second over devices, or over values of an option, as a picture (SVG) of two
   logarithmic axes; over devices with what every device as good as those of the fewest nodes would
   give. */
#include "app.h"
#include <math.h>

#define LEFT 90.0
#define RIGHT 760.0
#define TOP 70.0
#define BOTTOM 450.0

typedef struct {
  double low_x, high_x, low_y, high_y; /* logarithms of base 2 */
} Axes;

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

static RengaErrorCode DrawAxes(RengaViewer viewer, const AppCurve *curve, const Axes *axes)
{
  const int step = 1 + (int)((axes->high_y - axes->low_y) / 8);
  for (double y = axes->low_y; y <= axes->high_y; y += step)
    RengaCall(RengaViewerPrintf(viewer,
                                "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#dddddd\"/>\n"
                                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                                LEFT, PlaceY(axes, exp2(y)), RIGHT, LEFT - 8,
                                PlaceY(axes, exp2(y)) + 4, exp2(y)));
  RengaCall(RengaViewerPrintf(
      viewer,
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s (logarithmic)</text>\n"
      "<text x=\"%.1f\" y=\"%.1f\">samples/s (logarithmic)%s</text>\n",
      (LEFT + RIGHT) / 2, BOTTOM + 62, curve->along, LEFT, TOP - 14,
      curve->ideal ? "; dashed: as many per device as on the fewest that fit" : ""));
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

static RengaErrorCode DrawRow(RengaViewer viewer, const Axes *axes, const AppPlanRow *row)
{
  const double x = PlaceX(axes, row->place);
  RengaCall(RengaViewerPrintf(viewer,
                              "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g</text>\n", x,
                              BOTTOM + 20, row->place));
  if (!row->fits) {
    RengaCall(RengaViewerPrintf(
        viewer,
        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#bb0000\">no room</text>\n", x,
        BOTTOM + 38));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaViewerPrintf(
      viewer,
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555555\">%s</text>\n"
      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#4477aa\"/>\n"
      "<text x=\"%.1f\" y=\"%.1f\" fill=\"#4477aa\">%.4g (%.0f %%)</text>\n",
      x, BOTTOM + 38, row->shape, x, PlaceY(axes, row->rate), x + 7, PlaceY(axes, row->rate) + 14,
      row->rate, 100 * row->efficiency));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawCurve(RengaViewer viewer, const Axes *axes, int count,
                                const AppPlanRow rows[])
{
  const char *command = "M";
  RengaCall(RengaViewerPrintf(viewer, "<path fill=\"none\" stroke=\"#4477aa\" d=\""));
  for (int i = 0; i < count; i++) {
    if (!rows[i].fits || !HasPlace(&rows[i])) continue;
    RengaCall(RengaViewerPrintf(viewer, "%s%.1f %.1f", command, PlaceX(axes, rows[i].place),
                                PlaceY(axes, rows[i].rate)));
    command = "L";
  }
  RengaCall(RengaViewerPrintf(viewer, "\" stroke-width=\"1.5\"/>\n"));
  for (int i = 0; i < count; i++)
    if (HasPlace(&rows[i])) RengaCall(DrawRow(viewer, axes, &rows[i]));
  return RENGA_SUCCESS;
}

RengaErrorCode AppDrawRows(RengaViewer viewer, const AppCurve *curve, int count,
                           const AppPlanRow rows[])
{
  Axes axes;
  const AppPlanRow *first = FindFirstPoint(count, rows);
  RengaCall(RengaViewerPrintf(
      viewer,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"820\" height=\"530\" "
      "viewBox=\"0 0 820 530\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"%.1f\" y=\"30\" font-size=\"16\" font-weight=\"bold\">%s on %s</text>\n",
      LEFT, first ? "predicted throughput" : "nothing fits", curve->title));
  if (first) {
    FindAxes(curve, count, rows, first, &axes);
    RengaCall(DrawAxes(viewer, curve, &axes));
    if (curve->ideal) RengaCall(DrawIdeal(viewer, &axes, first));
    RengaCall(DrawCurve(viewer, &axes, count, rows));
  }
  RengaCall(RengaViewerPrintf(viewer, "</svg>\n"));
  return RENGA_SUCCESS;
}
