"""timeline.py FILE KEY=VALUE…: the drawing of a step is XML without scripts and links, is readable in light and dark,
has a row for each rank, in which nothing is computed at once with something else, and as many bars of each kind as
KEY=VALUE says (forward=8, message=14; * for some, any number but 0). parts: 1, simulated; 2, measured too. sums=last: those
of gradients begin with the last backward of their rank, or later."""
import collections
import re
import sys
import xml.etree.ElementTree

SVG = "{http://www.w3.org/2000/svg}"
file, wanted = sys.argv[1], dict(argument.split("=") for argument in sys.argv[2:])
root = xml.etree.ElementTree.parse(file).getroot()
problems = []


def check(condition, text):
    if not condition:
        problems.append(text)


check(root.tag == SVG + "svg", "no svg")
known = {SVG + name for name in ("svg", "style", "text", "rect", "title", "path")}
for element in root.iter():
    check(element.tag in known, "an element " + element.tag)
    check(not any("href" in name or name.startswith("on") for name in element.attrib), "a link or a script")
check("prefers-color-scheme: dark" in root.find(SVG + "style").text, "no dark colours")
check("url(" not in root.find(SVG + "style").text and "@import" not in root.find(SVG + "style").text, "something outside")

words = [text.text for text in root.iter(SVG + "text")]
parts = int(wanted.pop("parts", 1))
heads = [word for word in words if re.match(r"(simulated|measured)\b.*: step .*, bubble -?[\d.]+ %", word)]
check(len(heads) == parts, "heads " + str(heads))
ranks = int(wanted.pop("ranks"))
check(sum(re.match(r"ranks? \d", word) is not None for word in words) == ranks * parts, "not %d rows" % ranks)
check(("peak memory" in " ".join(words)) == (wanted.pop("peak", "yes") == "yes"), "peak memory")
if parts == 2:
    check(re.search(r"; [\d.]+ of ", heads[-1]), "no ratio: " + heads[-1])

last = wanted.pop("sums", "any") == "last"
kinds, rows, height = collections.Counter(), collections.defaultdict(list), float(root.attrib["height"])
backwards, sums = {}, []  # by the height of their row: where the last begins; where some begin
for bar in root.iter(SVG + "rect"):
    tip = bar.find(SVG + "title")
    x, y, width = (float(bar.attrib[name]) for name in ("x", "y", "width"))
    check(0 <= x and x + width <= 1200 and 0 <= y <= height, "a bar outside at %g %g" % (x, y))
    if tip is None:
        continue
    kinds[tip.text.split(",")[0]] += 1
    if bar.attrib["class"] == "work":
        rows[y].append((x, x + width))
    if tip.text.startswith("backward"):
        backwards[y] = max(x, backwards.get(y, 0))
    if tip.text.startswith("sum of gradients"):
        sums.append((y, x))
for bars in rows.values():
    bars.sort()
    check(all(one[1] <= other[0] + 0.5 for one, other in zip(bars, bars[1:])), "bars of a rank overlap")
for y, x in sums if last else []:
    row = max(above for above in backwards if above <= y)
    check(x >= backwards[row] - 0.5, "a sum at %g before the last backward at %g" % (x, backwards[row]))
for kind, count in wanted.items():
    found = kinds.pop(kind.replace("_", " "), 0)
    check(found > 0 if count == "*" else found == int(count), "%d bars of %s, not %s" % (found, kind, count))
check(not kinds, "bars that were not asked for: " + str(dict(kinds)))
if problems:
    sys.exit(file + ": " + "; ".join(problems))
