"""Plant every known mistake, and pairs of them, in ordinary PyTorch code; write what `conform` says as docs/faults.md.

    python bench/faults.py [--pairs 40] [--of decoders] [--only float64] [--view logits] [--jobs 2] [--out FILE]

A row of the table is of decoders (a GPT, a Llama and others), or of encoders (BERT, an encoder-decoder, T5), in one
precision and one view: all lines, what modules output, or the logits alone.  Its columns:

right mistake  it is named, or stands among those that are the same for these numbers (in float64 with its number)
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
from itertools import product, repeat
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import torch  # noqa: E402

from conform import ordinary_encoders as encoders  # noqa: E402
from conform import test_faults_of_encoders as of_encoders  # noqa: E402
from conform.ordinary import PLACES, Sizes, build  # noqa: E402
from conform.test_faults import KINDS, LOGITS, NUMBERS, OUTPUTS, TOLD, X, kind_of, layer_of, pairs  # noqa: E402
from transformulary.conform.mistakes import MISTAKES, ORDER, acts_at  # noqa: E402
from transformulary.conform.run import conform  # noqa: E402
from transformulary.files import write_atomically  # noqa: E402
from transformulary.oracle.lines import lines_of  # noqa: E402

VIEWS = {"all lines": PLACES, "outputs": OUTPUTS, "logits": LOGITS}
VIEWS_OF_ENCODERS = {"all lines": encoders.PLACES, "logits": encoders.LOGITS}
PRECISIONS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
COLUMNS = ("right mistake", "right line", "other line", "wrongly named", "not seen")
KNOWN = {m.key: m for m in (*MISTAKES, *NUMBERS, *ORDER)}


def outcome(kind, faults, view, precision):
    """(column, answer) of one run."""
    report, planted = run(kind, faults, view, PRECISIONS[precision])
    named = [fault for fault in report.faults if fault.key]
    says = {mistake.says for mistake in planted.values()}
    if precision != "float64":
        families = [mistake.having for mistake in planted.values() if mistake.having]
        says |= {mistake.says for mistake in KNOWN.values() if mistake.having in families}
    right = [f for f in named if f.key in planted or says & set(f.others)]
    right += [f for f in named if f not in right and precision != "float64" and but_for_the_number(f.key, planted)]
    if not report.faults:
        return "not seen", report.answer
    if len(right) < len(named):
        return "wrongly named", report.answer
    alike = [f for f in report.faults if not f.key and any(what in f.says for what in says)]  # of what is no number
    if len({f.key for f in right}) + len(alike) == len(faults):
        return "right mistake", report.answer
    lines = {f.paths[0].partition("[")[0] for f in report.faults if f.paths}
    return "right line" if right or lines & due(planted.values(), report.number) else "other line", report.answer


def run(kind, faults, view, dtype):
    """The report of a model with faults, and the mistakes that they are, by name."""
    if kind in of_encoders.KINDS:
        sizes = replace(of_encoders.KINDS[kind][0], faults=faults)
        model, table, ref = encoders.build(sizes, places=VIEWS_OF_ENCODERS[view][kind], dtype=dtype)
        read = {"segments": of_encoders.SEGMENTS} if kind == "bert" else {"context_tokens": of_encoders.Z}
        report = conform(model, ref, tokens=of_encoders.X, table=table, decoding=False, **read)
        return report, {mistake.key: mistake for mistake in (of_encoders.mistake_of(kind, key) for key in faults)}
    model, table, ref = build(replace(KINDS[kind], faults=faults), places=VIEWS[view], dtype=dtype)
    return conform(model, ref, tokens=X, table=table, decoding=False), {key: KNOWN[key] for key in faults}


def but_for_the_number(key, planted):
    """Whether what is named is a mistake with a number that was planted with another number."""
    named = Sizes(faults={key: 0})
    numbered = (mistake for mistake in planted.values() if mistake.having)
    return any(named.number(0, m.key.removesuffix(f"-{m.number:.12g}")) for m in numbered)


def due(planted, number):
    """The lines of the whole algorithm at which these faults are first seen; line 3 of a decoder is made of line 2."""
    due = {line.name for line in lines_of(number).values() if any(acts_at(mistake, line) for mistake in planted)}
    return due | {f"{number}.3" for name in due if name == f"{number}.2"}


def planted_in(models, pairs_of, rng):
    """What is planted -> [(kind of model, {mistake: layer})]."""
    if models == "encoders":
        cases = [(kind, {key: of_encoders.layer_of(kind, key, rng)}) for kind, key in of_encoders.CASES]
        return {"one mistake": cases}
    single = [(kind_of(m), {m.key: layer_of(m, rng)}) for m in TOLD] + [("gpt", {m.key: 0}) for m in ORDER]
    return {"one mistake": single, "two mistakes": pairs(pairs_of, seed=1)}


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
        "(`tests/conform/ordinary.py`, `ordinary_encoders.py`) at random depth, alone and in random pairs.",
        "Written by `bench/faults.py`.", "",
        f"| models | precision | seen | planted | cases | {' | '.join(COLUMNS)} |",
        f"|{'---|' * (5 + len(COLUMNS))}",
    ]  # fmt: skip
    for *of, found in rows:
        numbers = (str(found[column]) for column in COLUMNS)
        lines.append(f"| {' | '.join((*of, str(found.total()), *numbers))} |")
    meaning = __doc__.partition("columns:\n\n")[2].strip().splitlines()
    return "\n".join([*lines, "", *(f"- {line[:15].strip()}: {line[15:]}" for line in meaning), ""])


def main():
    """Run what was asked for and write the table, again after every row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--of", choices=("decoders", "encoders"))
    parser.add_argument("--only", choices=PRECISIONS)
    parser.add_argument("--view", choices=VIEWS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "faults.md")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    rng, rows = random.Random(0), []
    with ProcessPoolExecutor(args.jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for models, views in (("decoders", VIEWS), ("encoders", VIEWS_OF_ENCODERS)):
            planted = planted_in(models, args.pairs, rng) if args.of in (None, models) else {}
            for precision, view, what in product(PRECISIONS, views, planted):
                if args.only in (None, precision) and args.view in (None, view):
                    rows.append((models, precision, view, what, count(pool, planted[what], view, precision)))
                    write_atomically(args.out, page(rows))


if __name__ == "__main__":
    main()
