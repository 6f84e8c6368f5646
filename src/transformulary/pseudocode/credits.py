"""Whom a page owes to: the paper, whose algorithms it prints, and the version that printed it."""

from transformulary import __version__

AUTHORS, TITLE, PAPER = "Mary Phuong and Marcus Hutter", "Formal Algorithms for Transformers", "arXiv:2207.09238"
BIBTEX = f"""\
@article{{PH22, author = {{{AUTHORS}}}, title = {{{TITLE}}},
  journal = {{{PAPER}}}, year = {{2022}}}}"""
ADDRESS = "https://arxiv.org/abs/2207.09238"
PRINTED_BY = f"Printed by Transformulary {__version__}."
#: Algorithms in which the paper misprints something that we print as meant: what, and the number in docs/errata.md.
MISPRINTED = {
    "6": "the mean $m$ is a number, which the paper prints bold as if it were a vector (E8)",
    "8": "line 13 counts layers by $l$, as its body does, and not by $i$ (E3)",
    "9": "$W_u$ has $d_f$ columns, and not $d_e$ (E2)",
}
#: Lettered algorithms that the paper has in its text.
IN_THE_TEXT = frozenset({"2s", "6r"})
