"""Pictures and listings of the book, all from the program: plans that it draws, schedules that the library draws, and the
timeline of a short run on two ranks."""
import ctypes
import html
import json
import os
import subprocess

GPT = "gpt:layers=4,hidden=128,heads=4,sequence=64,vocabulary=256"
BERT = "bert:layers=12,hidden=768,sequence=128"
COLOURS = {"forward": "#3b6ea5", "backward": "#c05b2e", "recompute": "#8a9a5b", "update": "#777777", "reduce": "#9467bd",
           "send": "#a8c4e0", "receive": "#e6c3a8"}
WIDTH, LEFT, ROW, TOP = 900, 150, 22, 30


def run(command, folder):
    """A command of the program; what it prints. Ends the making of the book where it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def draw_plans(renga, pages):
    asked = [renga, "plan", "-graph", BERT, "-machine_file", "v100", "-microbatch_size", "2", "-partition_leaf", "1"]
    four = asked + ["-machine_nodes", "1", "-batch_size", "64", "-layout_pipeline", "4"]
    (pages / "listing-explain.txt").write_text(run(four + ["-plan_explain", "-plan_view", "draw:picture-plan.svg"], pages))
    (pages / "listing-plan.txt").write_text(run(four, pages))
    run(asked + ["-machine_nodes", "1,2,4", "-batch_size", "256", "-plan_view", "draw:picture-nodes.svg"], pages)


# ---- schedules, as the library draws them ----


class Library:
    """Calls of the shared library; an error ends the making of the book, with its sentence."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["RENGA_LIBRARY"], mode=ctypes.RTLD_GLOBAL)
        self.library.RengaErrorGetMessage.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments):
            raise SystemExit(self.library.RengaErrorGetMessage().decode())


def start_library():
    library, comm = Library(), ctypes.c_void_p()
    library.call("RengaInitialize", None, None, None)
    library.call("RengaCommCreateFortran", ctypes.c_int(0x44000000), ctypes.byref(comm))
    return library, comm


class Message(ctypes.Structure):
    """RengaMessage of rengaschedule.h"""

    _fields_ = [("name", ctypes.c_char_p), ("source", ctypes.c_int), ("target", ctypes.c_int), ("gradient", ctypes.c_bool),
                ("bytes", ctypes.c_int64)]


def chain(stages):
    """Messages of a chain: activations to the next stage, their gradients back."""
    pairs = [(s, s + 1, False) for s in range(stages - 1)] + [(s + 1, s, True) for s in range(stages - 1)]
    return (Message * len(pairs))(*[Message(b"h", a, b, gradient, 8) for a, b, gradient in pairs])


def write_schedule(library, comm, kind, eager, path):
    schedule, viewer, byref, messages = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.byref, chain(4)
    library.call("RengaScheduleCreate", comm, byref(schedule))
    library.call("RengaScheduleSetType", schedule, kind.encode())
    library.call("RengaScheduleSetEager", schedule, ctypes.c_double(eager))
    library.call("RengaScheduleSetShape", schedule, 4, None, ctypes.c_int64(6), len(messages), messages, ctypes.c_bool(False))
    library.call("RengaScheduleSetUp", schedule)
    library.call("RengaViewerCreate", comm, f"ascii:{path}".encode(), byref(viewer))
    library.call("RengaScheduleView", schedule, viewer)
    library.call("RengaViewerDestroy", byref(viewer))
    library.call("RengaScheduleDestroy", byref(schedule))


def draw_schedules(pages):
    library, comm = start_library()
    for name, kind, eager in (("gpipe", "gpipe", 0), ("1f1b", "1f1b", 0), ("eager", "1f1b", 1)):
        write_schedule(library, comm, kind, eager, pages / f"listing-{name}.txt")
    library.call("RengaCommDestroy", ctypes.byref(comm))
    library.call("RengaFinalize")


# ---- the timeline of a step, from -log_trace ----


def last_step(events):
    """Events of the last step that all ranks made: from the end of the last update but one."""
    updates = sorted(e["ts"] + e["dur"] for e in events if e["name"] == "update" and e["pid"] == 0)
    begin = updates[-2] if len(updates) > 1 else 0
    return begin, [e for e in events if e["ts"] + e["dur"] > begin]


def svg_text(x, y, text, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(text)}</text>'


def timeline(events):
    begin, events = last_step([e for e in events if e["ph"] == "X"])
    end = max(e["ts"] + e["dur"] for e in events)
    scale = (WIDTH - LEFT - 20) / (end - begin)
    rows = sorted({(e["pid"], e["tid"]) for e in events})
    height = TOP + ROW * len(rows) + 60
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           svg_text(LEFT, 18, f"one step, {(end - begin) / 1000:.1f} ms")]
    for i, (rank, track) in enumerate(rows):
        name = f"rank {rank}, " + ("computes" if track == 0 else "messages")
        out.append(svg_text(LEFT - 8, TOP + ROW * i + 14, name, 'text-anchor="end"'))
    for event in events:
        words = event["name"].split()
        x = LEFT + scale * max(event["ts"] - begin, 0)
        width = max(scale * (event["ts"] + event["dur"] - max(event["ts"], begin)), 0.6)
        y = TOP + ROW * rows.index((event["pid"], event["tid"]))
        colour = COLOURS.get(words[0], "#bbbbbb")
        out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 5}" fill="{colour}"/>')
        if width > 14 and event["tid"] == 0 and len(words) > 1:
            out.append(svg_text(x + width / 2, y + 13, words[1], 'text-anchor="middle" fill="#ffffff"'))
    for i, (name, colour) in enumerate(COLOURS.items()):
        x = LEFT + 95 * i
        out.append(f'<rect x="{x}" y="{height - 28}" width="12" height="12" fill="{colour}"/>' + svg_text(x + 16, height - 18, name))
    return "\n".join(out) + "\n</svg>\n"


def draw_timelines(renga, mpiexec, pages):
    for schedule in ("gpipe", "1f1b"):
        trace = pages / "trace.json"
        shown = run([mpiexec, "-n", "2", renga, "train", "-graph", GPT, "-data", "synthetic", "-batch_size", "16", "-steps", "6",
                     "-microbatch_size", "2", "-layout_pipeline", "2", "-layout_data", "1", "-log_trace", trace.name,
                     "-schedule_type", schedule], pages)
        (pages / f"picture-timeline-{schedule}.svg").write_text(timeline(json.loads(trace.read_text())["traceEvents"]))
        (pages / "listing-train.txt").write_text(shown)
        trace.unlink()


def draw(source, build, pages):
    renga = build / "renga"
    draw_plans(renga, pages)
    draw_schedules(pages)
    draw_timelines(renga, os.environ.get("MPIEXEC", "mpiexec"), pages)
