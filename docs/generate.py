"""Writes the generated parts of the documents: python docs/generate.py [--check].

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`.  With --check nothing is written;
the exit status is 1 if a document is not what it should be.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformulary.paper.presets import Family, Preset

ROOT = Path(__file__).parents[1]
SOURCE = Path("src/transformulary")
sys.path.insert(0, str(ROOT / SOURCE.parent))  # whatever is installed, the documents are of this tree

#: Algorithm -> (file below SOURCE, name): what computes it in PyTorch.
FAST = {
    1: ("nn/transformer.py", "Transformer"),
    2: ("nn/slots.py", "POSITIONS"),
    3: ("nn/attend.py", "attend"),
    4: ("nn/attention.py", "Attention"),
    5: ("nn/attention.py", "MHAttention"),
    6: ("nn/slots.py", "TABLES"),
    7: ("nn/dtransformer.py", "DTransformer"),
    8: ("nn/edtransformer.py", "EDTransformer"),
    9: ("nn/etransformer.py", "ETransformer"),
    10: ("nn/dtransformer.py", "DTransformer"),
    13: ("train/dtraining.py", "DTraining"),
    14: ("generate/dinference.py", "DInference"),
    15: ("generate/edinference.py", "EDInference"),
}


def algorithms() -> Iterator[tuple[int, str, str, Path]]:
    """(number, function, what it does, file) of the paper's algorithms, read from the oracle's source."""
    for file in sorted((ROOT / SOURCE / "oracle").glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            for decorator in getattr(node, "decorator_list", ()):
                if found := re.fullmatch(r"algorithm\((\d+)\)", ast.unparse(decorator)):
                    what = (ast.get_docstring(node) or "").splitlines()[0].partition(": ")[2]
                    yield int(found[1]), node.name, what.rstrip("."), file.relative_to(ROOT)


def algorithms_table() -> str:
    """The table of the fifteen algorithms: where each is written, computed fast, and tested."""
    head = "| | Algorithm of the paper (oracle) | What it does | Fast | Tests |\n|---|---|---|---|---|"
    rows = [
        f"| {number} | {_link(name, file)} | {what} | {_fast(number)} | {_tests(number)} |"
        for number, name, what, file in sorted(algorithms())
    ]
    return "\n".join([head, *rows])


def _link(name: str, file: Path) -> str:
    return f"[`{name}`]({file.as_posix()})"


def _fast(number: int) -> str:
    if number not in FAST:
        return ""
    file, name = FAST[number]
    path = SOURCE / file
    source = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^(class |def )?{name}\b", source, re.MULTILINE), f"{path} defines no {name}"
    return _link(name, path)


def _tests(number: int) -> str:
    files = sorted((ROOT / "tests/algorithms").glob(f"test_{number:02}_*.py"))
    return ", ".join(f"[{file.stem}]({file.relative_to(ROOT).as_posix()})" for file in files)


def presets_table() -> str:
    """All presets with their counts."""
    from transformulary.cli.presets import HEAD, row
    from transformulary.paper.presets import presets
    from transformulary.pseudocode.heads import counts
    from transformulary.tables import size

    def cells(preset: Preset) -> list[str]:
        costs = counts(preset.config)
        held = costs["bytes"]["bfloat16"]
        name, *rest = row(preset)
        shown = [f"{cell:,}" if type(cell) is int else str(cell) for cell in rest]
        work = f"{costs['flops_per_token']['matrices']:,.0f}"
        return [f"`{name.strip()}`", *shown, work, *("-" if n is None else size(n) for n in held.values())]

    head = ["", *HEAD[1:], "FLOPs a token", "weights", "cache", "training"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *map(cells, presets().values())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def presets_notes() -> str:
    """Where the numbers of each family are from, and what they leave open."""
    from transformulary.paper.presets import families

    def item(family: Family) -> str:
        notes = [family.note, *(f"{size}: {note}" for size, note in family.notes.items())]
        return f"- `{family.name}`, {family.title}: {family.source}. {' '.join(filter(None, notes))}".rstrip()

    return "\n".join(map(item, families().values()))


def needed_table() -> str:
    """The keys that a config.json of each published format cannot do without."""
    from transformulary.formats import FORMATS

    rows = [form for form in FORMATS if not form.model_type.startswith("transformulary")]
    lines = [f"| {form.model_type} | {', '.join(f'`{name}`' for name in form.needed)} |" for form in rows]
    return "\n".join(["| `model_type` | needed |", "|---|---|", *lines])


PARTS = {
    "algorithms": algorithms_table,
    "needed": needed_table,
    "presets": presets_table,
    "preset_notes": presets_notes,
}


def generated(text: str) -> str:
    """The document with every generated part written anew."""

    def part(found: re.Match[str]) -> str:
        return f"{found[1]}\n{PARTS[found[2]]()}\n{found[3]}"

    return re.sub(r"(<!-- generated: (\w+) -->)\n.*?(<!-- end -->)", part, text, flags=re.DOTALL)


def main(check: bool) -> int:
    """Write every document, or only compare; returns the exit status."""
    status = 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        old = path.read_text(encoding="utf-8")
        new = generated(old)
        if new != old and check:
            print(f"{path.relative_to(ROOT)} is out of date: make docs")
            status = 1
        elif new != old:
            path.write_text(new, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["--check"]))
