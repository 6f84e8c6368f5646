"""Whom a page owes to: the paper, whose algorithms it prints, and the version that printed it."""

from transformulary import __version__

BIBTEX = """\
@article{PH22, author = {Phuong, Mary and Hutter, Marcus}, title = {Formal Algorithms for Transformers},
  journal = {arXiv:2207.09238}, year = {2022}}"""
PAPER = "https://arxiv.org/abs/2207.09238"
PRINTED_BY = f"Printed by Transformulary {__version__}."
