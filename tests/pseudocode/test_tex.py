"""LaTeX as printed compiles with a small TeX, and every line keeps within the width of the page."""

import re
import subprocess

import pytest

import needs
from pseudocode.published import CONFIGS
from pseudocode.test_run import RUNS
from transformulary.paper import DTransformerConfig, Inference
from transformulary.paper.practice import Practice
from transformulary.paper.presets import presets
from transformulary.pseudocode import describe, diff, numbers, render, run
from transformulary.pseudocode.latex import head
from transformulary.pseudocode.nodes import Head


def all_presets():
    """Every preset with its numbers, in one document."""
    pages = [describe(one, numbers=True, format="latex") for one in presets().values()]
    begin, end = r"\begin{document}", r"\begin{thebibliography}"
    inside = [page.partition(begin)[2].partition(end)[0] for page in pages]
    return "".join([*pages[0].partition(begin)[:2], *inside, *pages[0].partition(end)[1:]])


def a_run(how):
    """The page of a run, with all that its lines can name."""
    told = {"eta": 0.05, "tau": 0.8, "ell_gen": 2}
    practice = Practice(training=how, inference=Inference(top_k=3, top_p=0.5, stop=(1,)), told=told)
    return run(DTransformerConfig(N_V=6, ell_max=4, L=1, H=1, d_e=2, d_mlp=2, eps=1e-3), practice, "latex")


DOCUMENTS = {
    "all algorithms": lambda: render(numbers(), format="latex"),
    "a diff": lambda: diff(CONFIGS["paper 8"], CONFIGS["Llama"], format="latex"),
    **{name: lambda config=config: describe(config, format="latex") for name, config in CONFIGS.items()},
    "with numbers": lambda: describe(CONFIGS["Llama, yarn"], numbers=True, format="latex"),
    "every preset": all_presets,
    **{f"run: {name}": lambda how=how: a_run(how) for name, how in RUNS.items()},
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
    assert [] == complaints(DOCUMENTS[name](), tmp_path)


def complaints(source, folder):
    """What TeX does not like of a document that it has set."""
    log = log_of(source, folder)
    assert "Output written on page.pdf" in log
    return re.findall(r"^(?:Overfull .*|Missing character.*|.*multiply.defined.*)$", log, re.MULTILINE)


def test_the_name_of_any_folder_keeps_within_the_page(tmp_path):
    """A title is broken after the slashes of a path, wherever they are."""
    names = ["/" + "/".join(["n" * most] * 6) + "/out, as it was trained" for most in range(5, 30)]
    source = "\nText.\n".join(map(head, map(Head, names)))

    assert [] == complaints(article(r"\documentclass{article}", source, r"\bibitem{none}"), tmp_path)


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


#: An article of somebody else's; the first has a float for algorithms already.
ARTICLES = {
    "in one column": (r"\documentclass{article}\usepackage{float}\newfloat{algorithm}{tbp}{loa}", "algorithm"),
    "in two columns": (r"\documentclass[twocolumn]{article}", "algorithm"),
    "across two columns": (r"\documentclass[twocolumn]{article}", "algorithm*"),
}


@pytest.mark.parametrize("name", ARTICLES)
def test_a_box_in_an_article(name, tmp_path):
    """What the first lines of a document say makes one of its boxes part of any article."""
    first, environment = ARTICLES[name]
    preamble, box, cited = copied(describe(CONFIGS["Llama"], format="latex"), "10")
    box = box.replace("{algorithm}", f"{{{environment}}}").replace("[H]", "[t]" if "*" in environment else "[H]")
    (tmp_path / "box.tex").write_text(box)

    source = article(first + preamble, r"Before. \input{box} After Algorithm~\ref{mine}.", cited)
    log = log_of(source, tmp_path, times=2)

    assert "Output written on page.pdf" in log
    assert [] == re.findall("Overfull.*|.*[Uu]ndefined.*", log)


def test_a_box_taller_than_a_page(tmp_path):
    """Split as the first lines of a document say, Algorithm 8 fits into two columns; whole, it is taller than one."""
    preamble, box, cited = copied(describe(CONFIGS["a gate in each stack"], format="latex"), "8")
    first = r"\documentclass[twocolumn]{article}" + preamble
    head, *lines = re.split(r"(?m)^(?=\\algline)", box)
    begin = head.partition(r"\alghead")[0]
    split = [head, *lines[:9], "\\end{algorithm}\n", begin, *lines[9:]]

    logs = [log_of(article(first, part, cited), tmp_path) for part in (box, "".join(split))]

    assert ["Overfull \\vbox" in log for log in logs] == [True, False]


def copied(document, number):
    """(what an article's preamble needs, one box with a label, what it cites), as the first lines of a document say."""
    boxes = re.findall(r"\\begin\{algorithm\}\[H\]\n.*?\\end\{algorithm\}", document, re.DOTALL)
    box = next(one for one in boxes if rf"\thealgorithm}}{{{number}}}" in one)
    labelled = box.replace("\\smallskip", "\\label{mine}\\smallskip")
    return document.split("% -----\n")[1], labelled, re.search(r"\\bibitem.*", document)[0]


def article(preamble, inside, cited):
    """A whole document."""
    works = rf"\begin{{thebibliography}}{{1}}{cited}\end{{thebibliography}}"
    return "\n".join([preamble, r"\begin{document}", inside, works, r"\end{document}"])
