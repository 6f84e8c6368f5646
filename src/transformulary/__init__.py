"""Transformulary: the executable edition of "Formal Algorithms for Transformers"."""

__version__ = "0.1.0"
