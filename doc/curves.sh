#!/bin/sh
# A drawing of losses: curves.sh TITLE=loss.csv ... >curves.svg. A panel for each file that renga train -monitor wrote,
# each point the mean of a hundredth of the steps.
set -eu
left=0
printf '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="230" font-family="sans-serif" font-size="11">\n' $((280 * $#))
for panel; do
  awk -F, -v title="${panel%%=*}" -v left=$left '
  NR > 1 { loss[n++] = $2 }
  END {
    points = n < 100 ? n : 100
    for (p = 0; p < points; p++) {
      from = int(p * n / points); to = int((p + 1) * n / points); sum = 0
      for (i = from; i < to; i++) sum += loss[i]
      y[p] = sum / (to - from)
      if (y[p] > top) top = y[p]
    }
    top = int(top + 1)
    printf "<g transform=\"translate(%d,0)\">\n<text x=\"45\" y=\"16\">%s</text>\n", left, title
    for (k = 0; k <= 4; k++) {
      at = 200 - 170 * k / 4
      printf "<path d=\"M45 %g H270\" stroke=\"#ddd\"/><text x=\"40\" y=\"%g\" text-anchor=\"end\">%g</text>\n",
        at, at + 4, top * k / 4
    }
    printf "<text x=\"45\" y=\"218\">0</text><text x=\"270\" y=\"218\" text-anchor=\"end\">%d steps</text>\n", n
    printf "<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"1.5\" points=\""
    for (p = 0; p < points; p++) printf "%.1f,%.1f ", 45 + 225 * (p + 0.5) / points, 200 - 170 * y[p] / top
    printf "\"/>\n</g>\n"
  }' "${panel#*=}"
  left=$((left + 280))
done
echo '</svg>'
