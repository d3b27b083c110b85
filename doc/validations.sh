#!/bin/sh
# A drawing of losses of the part for validation: validations.sh TITLE=loss.csv ... >validations.svg. A line for each file
# that renga train -monitor wrote, all in one panel.
set -eu
color() { echo '#1f5fa8 #c0392b #2e8b57 #8e44ad #d68910 #555555' | cut -d' ' -f$((($1 - 1) % 6 + 1)); }
number=0
for line; do
  number=$((number + 1))
  awk -F, -v title="${line%%=*}" -v color="$(color $number)" \
    'NR > 1 && $7 != "" { print title "\t" color "\t" $1 + 1 "\t" $7 }' "${line#*=}"
done | awk -F'\t' '
!($1 in count) { name[lines++] = $1; color[$1] = $2 }
{
  k = count[$1]++; step[$1, k] = $3; loss[$1, k] = $4
  if ($3 > last) last = $3
  if ($4 > top) top = $4
  if (!least || $4 < least) least = $4
}
function place(value) { return 300 - 280 * (value - least) / (top - least) }
END {
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"330\" font-family=\"sans-serif\" font-size=\"11\">\n"
  for (k = 0; k <= 4; k++) {
    value = least + (top - least) * k / 4
    printf "<path d=\"M45 %g H430\" stroke=\"#ddd\"/><text x=\"40\" y=\"%g\" text-anchor=\"end\">%.3f</text>\n", place(value), place(value) + 4, value
  }
  printf "<text x=\"45\" y=\"318\">0</text><text x=\"430\" y=\"318\" text-anchor=\"end\">%d steps</text>\n", last
  for (n = 0; n < lines; n++) {
    t = name[n]
    printf "<text x=\"445\" y=\"%d\" fill=\"%s\">%s</text>\n", 20 + 18 * n, color[t], t
    printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", color[t]
    for (k = 0; k < count[t]; k++) printf "%.1f,%.1f ", 45 + 385 * step[t, k] / last, place(loss[t, k])
    printf "\"/>\n"
  }
  print "</svg>"
}'
