"""Whom a page owes to: the paper, whose algorithms it prints, and the version that printed it."""

from transformulary import __version__

AUTHORS, TITLE, PAPER = "Mary Phuong and Marcus Hutter", "Formal Algorithms for Transformers", "arXiv:2207.09238"
BIBTEX = f"""\
@article{{PH22, author = {{{AUTHORS}}}, title = {{{TITLE}}},
  journal = {{{PAPER}}}, year = {{2022}}}}"""
ADDRESS = "https://arxiv.org/abs/2207.09238"
PRINTED_BY = f"Printed by Transformulary {__version__}."
