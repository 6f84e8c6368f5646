"""The oracle's source as the paper's pseudocode, for any model.  Standard library only.

`render(10)` is Algorithm 10 as printed; `render(10, config)` are the lines that one model executes;
`describe(config)` is a whole model with its numbers.
"""

from transformulary.pseudocode.describe import describe, numbers, render

__all__ = ["describe", "numbers", "render"]
