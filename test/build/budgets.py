#!/usr/bin/env python3
"""What NVIDIA's compiler makes of the cuda device's hot kernels, held against a table of what it may.

    budgets.py TABLE CUBIN=LOG...    LOG: what nvcc -cubin -Xptxas -v said when it wrote CUBIN
    budgets.py -rows CUBIN=LOG...    rows of a table for all kernels

A row of TABLE has a kernel's name and the most that it may have of
    registers   of a thread
    shared      bytes of shared memory of a block, as compiled
    spills      bytes that are stored for lack of registers, and those of arrays that no register holds
    divisions   calls of 64-bit integer divisions in its loops
    loop        instructions of its hot loop: the innermost one that multiplies matrices, or else the longest innermost one
    per mma     the same for each product of matrices in it, where there are any

Instructions are 16 bytes (compute capability 7.0 and newer), their operation the lowest 12 bits. What is counted is what
stands in the code, not what runs: a branch that is rarely taken counts.
"""
import re
import struct
import subprocess
import sys

BRANCH, CALL, MULTIPLY = 0x947, 0x944, 0x23C
COLUMNS = ("registers", "shared", "spills", "divisions", "loop", "per mma")


def sections(data):
    """Name, offset, size and number of each section of an ELF file, and its symbols (name, section, value)."""
    start, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]

    def text(table, at):
        begin = rows[table][4] + at
        return data[begin:data.index(b"\0", begin)].decode()

    named = [(text(names, row[0]), row[4], row[5], i) for i, row in enumerate(rows)]
    symbols = []
    for row in rows:
        if row[1] == 2:
            for at in range(row[4], row[4] + row[5], 24):
                name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
                symbols.append((text(row[6], name), section, value))
    return named, symbols


def target(at, low):
    """Where the branch or call at byte `at` goes, whose first 8 bytes are `low`."""
    high = low >> 32
    return at + 16 + 4 * (((high - (1 << 32) if high >> 31 else high) >> 2) * 256 + (low >> 16 & 255))


def innermost(loops):
    return [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]


def count(code, divisions):
    """The last three columns, of a kernel's code; divisions: addresses of functions that divide."""
    low = [struct.unpack_from("<Q", code, at)[0] for at in range(0, len(code), 16)]
    loops, found = [], set()
    for i, word in enumerate(low):
        if word & 0xFFF == BRANCH and target(16 * i, word) < 16 * i:  # one to itself ends the kernel
            loops.append((target(16 * i, word) // 16, i))
    for first, last in loops:
        for i in range(first, last + 1):
            if low[i] & 0xFFF == CALL and target(16 * i, low[i]) in divisions:
                found.add(i)
    products = lambda loop: sum(word & 0xFFF == MULTIPLY for word in low[loop[0]:loop[1] + 1])
    length = lambda loop: loop[1] + 1 - loop[0]
    hot = innermost([loop for loop in loops if products(loop)])
    if hot:
        worst = max(hot, key=lambda loop: length(loop) / products(loop))
        return len(found), length(worst), length(worst) / products(worst)
    return len(found), max(map(length, innermost(loops)), default=0), 0.0


def kernels(cubin, log):
    """Rows by kernel, as c++filt names it, without its parameters."""
    with open(cubin, "rb") as file:
        data = file.read()
    with open(log, encoding="utf-8") as file:
        said = re.findall(r"Function properties for (\S+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores.*\n"
                          r".*Used (\d+) registers(?:.*?(\d+) bytes smem)?", file.read())
    said = {name: (int(registers), int(shared or 0), max(int(frame), int(spilled)))
            for name, frame, spilled, registers, shared in said}
    named, symbols = sections(data)
    rows = {}
    for name, offset, size, section in named:
        if not name.startswith(".text.") or name[6:] not in said:
            continue
        divisions = {value for symbol, of, value in symbols
                     if of == section and re.search(r"(div|rem)_[su]64", symbol)}
        rows[name[6:]] = said[name[6:]] + count(data[offset:offset + size], divisions)
    plain = subprocess.run(["c++filt"], input="\n".join(rows), capture_output=True, text=True, check=True).stdout.split("\n")
    return {re.sub(r"^void |\(.*", "", name): row for name, row in zip(plain, rows.values())}


def main():
    table, files = sys.argv[1], [argument.split("=") for argument in sys.argv[2:]]
    found = {}
    for cubin, log in files:
        found.update(kernels(cubin, log))
    if table == "-rows":
        for name, row in sorted(found.items()):
            print("\t".join([name] + ["%.1f" % x if isinstance(x, float) else str(x) for x in row]))
        return 0
    failures = 0
    with open(table, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
    for name, *most in rows:
        if name not in found:
            print("%s: there is no such kernel" % name)
            failures += 1
            continue
        for column, limit, is_ in zip(COLUMNS, most, found[name]):
            if is_ > float(limit):
                print("%s: %s %.4g, may be %s" % (name, column, is_, limit))
                failures += 1
    print("%d kernels, %d budgets exceeded" % (len(rows), failures))
    return failures > 0 or not rows


if __name__ == "__main__":
    sys.exit(main())
