"""The oracle's source as the paper's pseudocode, for any model.  Standard library only.

`render(10)` is Algorithm 10 as printed; `render(10, config)` are the lines that one model executes;
`describe(config)` is a whole model; `diff(a, b)` is what differs between two.  Each comes in the FORMATS: text,
LaTeX, Markdown, HTML.
"""

from transformulary.pseudocode.describe import FORMATS, Page, describe, diff, numbers, render, run

__all__ = ["FORMATS", "Page", "describe", "diff", "numbers", "render", "run"]
