"""Plant every known mistake, and pairs of them, in ordinary PyTorch code; write what `conform` says as docs/faults.md.

    python bench/faults.py [--pairs 40] [--only float64] [--view logits] [--jobs 2] [--out FILE]

A row of the table is one precision and one view: all lines, what modules output, or the logits alone.  Its columns:

right mistake  it is named (in float64 with its number), or stands among those that are the same for these numbers
right line     the line is named, but not what is wrong in it; of two mistakes: one of them is named
other line     something differs, at another line
wrongly named  something that was not planted is named
not seen       everything seen agrees: at this precision the fault changes nothing beyond what rounding does
"""

import argparse
import json
import random
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import torch  # noqa: E402

from conform.ordinary import PLACES, Sizes, build  # noqa: E402
from conform.test_faults import KINDS, LOGITS, NUMBERS, OUTPUTS, TOLD, X, kind_of, layer_of, pairs  # noqa: E402
from transformulary.conform.mistakes import MISTAKES, ORDER  # noqa: E402
from transformulary.conform.run import conform  # noqa: E402
from transformulary.files import write_atomically  # noqa: E402

VIEWS = {"all lines": PLACES, "outputs": OUTPUTS, "logits": LOGITS}
PRECISIONS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
COLUMNS = ("right mistake", "right line", "other line", "wrongly named", "not seen")
KNOWN = {m.key: m for m in (*MISTAKES, *NUMBERS, *ORDER)}
#: Where a reader of Algorithm 10 sees a mistake of another algorithm.
IN_LINE = {"4": {"6"}, "4r": {"6"}, "5": {"6"}, "6": {"5", "7", "10"}, "6r": {"5", "7", "10"}}


def outcome(kind, faults, view, precision):
    """(column, answer) of one run."""
    model, table, ref = build(replace(KINDS[kind], faults=faults), places=VIEWS[view], dtype=PRECISIONS[precision])
    report = conform(model, ref, tokens=X, table=table, decoding=False)
    named = [fault for fault in report.faults if fault.key]
    planted = {KNOWN[key].says for key in faults}
    right = [f for f in named if f.key in faults or planted & set(f.others)]
    right += [f for f in named if f not in right and precision != "float64" and but_for_the_number(f.key, faults)]
    if not report.faults:
        return "not seen", report.answer
    if len(right) < len(named):
        return "wrongly named", report.answer
    if len({f.key for f in right}) == len(faults):
        return "right mistake", report.answer
    lines = {f.paths[0].partition("[")[0].removeprefix("10.") for f in report.faults if f.paths}
    return "right line" if right or lines & due(faults) else "other line", report.answer


def but_for_the_number(key, faults):
    """Whether what is named is a mistake with a number that was planted with another number."""
    named = Sizes(faults={key: 0})
    numbered = (KNOWN[planted] for planted in faults if KNOWN[planted].having)
    return any(named.number(0, m.key.removesuffix(f"-{m.number:.12g}")) for m in numbered)


def due(faults):
    """The lines of Algorithm 10 at which these faults are first seen."""
    lines = set()
    for key in faults:
        line = KNOWN[key].line
        number, _, label = line.partition(".")
        lines |= {label, "3"} if line == "10.2" else IN_LINE.get(number, {label})
    return lines


def count(pool, group, view, precision):
    """How often each column; every case that is not plainly right goes to stderr."""
    found = Counter()
    results = pool.map(outcome, *zip(*group, strict=True), repeat(view), repeat(precision))
    for (kind, faults), (result, answer) in zip(group, results, strict=True):
        found[result] += 1
        if result != "right mistake":
            print(json.dumps([precision, view, kind, faults, result, answer]), file=sys.stderr, flush=True)
    return found


def page(rows):
    """The table as Markdown."""
    lines = [
        "# What `conform` finds", "",
        "Every known mistake that changes a number, planted by hand in ordinary PyTorch code",
        "(`tests/conform/ordinary.py`) at random depth, alone and in random pairs. Written by `bench/faults.py`.", "",
        f"| precision | seen | planted | cases | {' | '.join(COLUMNS)} |", f"|{'---|' * (4 + len(COLUMNS))}",
    ]  # fmt: skip
    for precision, view, what, found in rows:
        numbers = " | ".join(str(found[column]) for column in COLUMNS)
        lines.append(f"| {precision} | {view} | {what} | {found.total()} | {numbers} |")
    meaning = __doc__.partition("columns:\n\n")[2].strip().splitlines()
    return "\n".join([*lines, "", *(f"- {line[:15].strip()}: {line[15:]}" for line in meaning), ""])


def main():
    """Run what was asked for and write the table, again after every row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--only", choices=PRECISIONS)
    parser.add_argument("--view", choices=VIEWS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "faults.md")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    rng, rows = random.Random(0), []
    single = [(kind_of(m), {m.key: layer_of(m, rng)}) for m in TOLD] + [("gpt", {m.key: 0}) for m in ORDER]
    with ProcessPoolExecutor(args.jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for precision in [args.only] if args.only else PRECISIONS:
            for view in [args.view] if args.view else VIEWS:
                for what, group in (("one mistake", single), ("two mistakes", pairs(args.pairs, seed=1))):
                    rows.append((precision, view, what, count(pool, group, view, precision)))
                    write_atomically(args.out, page(rows))


if __name__ == "__main__":
    main()
