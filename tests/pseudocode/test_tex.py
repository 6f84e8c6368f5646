"""LaTeX as printed compiles with a small TeX, and every line keeps within the width of the page."""

import re
import subprocess

import pytest

import needs
from pseudocode.published import CONFIGS
from transformulary.paper.presets import presets
from transformulary.pseudocode import describe, diff, numbers, render


def all_presets():
    """Every preset with its numbers, in one document."""
    pages = [describe(one, numbers=True, format="latex") for one in presets().values()]
    begin, end = r"\begin{document}", r"\begin{thebibliography}"
    inside = [page.partition(begin)[2].partition(end)[0] for page in pages]
    return "".join([*pages[0].partition(begin)[:2], *inside, *pages[0].partition(end)[1:]])


DOCUMENTS = {
    "all algorithms": lambda: render(numbers(), format="latex"),
    "a diff": lambda: diff(CONFIGS["paper 8"], CONFIGS["Llama"], format="latex"),
    **{name: lambda config=config: describe(config, format="latex") for name, config in CONFIGS.items()},
    "with numbers": lambda: describe(CONFIGS["Llama, yarn"], numbers=True, format="latex"),
    "every preset": all_presets,
}


def log_of(source, folder, times=1):
    """What TeX says of a document, in lines as long as it likes."""
    (folder / "page.tex").write_text(source, encoding="utf-8")
    command = [needs.pdflatex(), "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    for _ in range(times):
        ran = subprocess.run(command, cwd=folder, capture_output=True, env={"max_print_line": "1000"}, check=False)
        assert ran.returncode == 0, ran.stdout.decode(errors="replace")[-1000:]
    return (folder / "page.log").read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_compiles(name, tmp_path):
    """A document compiles as it is; nothing is too wide, no letter is missing."""
    log = log_of(DOCUMENTS[name](), tmp_path)

    assert "Output written on page.pdf" in log
    assert [] == re.findall(r"^(?:Overfull .*|Missing character.*|.*multiply.defined.*)$", log, re.MULTILINE)


def test_citations_are_found(tmp_path):
    """The second time, every caption knows what it cites."""
    assert "Warning" not in log_of(render([4, 10], format="latex"), tmp_path, times=2)


@pytest.mark.parametrize("name", ["Llama, yarn", "a gate in each stack", "every preset"])
def test_in_two_columns(name, tmp_path):
    """In a paper of two columns as well, lines are broken and keep within the column."""
    source = DOCUMENTS[name]()
    narrow = source.replace(r"\documentclass{article}", r"\documentclass[twocolumn]{article}")

    assert narrow != source
    assert r"Overfull \hbox" not in log_of(narrow, tmp_path)
