"""What the documents claim beside their blocks."""

import torch

from documents.test_blocks import ROOT, blocks
from transformulary.conform.candidates.imported import imported
from transformulary.conform.candidates.opened import of_folder
from transformulary.conform.reference import reference

EXAMPLES = ROOT / "examples"


def test_the_mistake_of_the_ordinary_gpt_is_easily_missed():
    """With the mistake that README shows, logits are within 1e-3 of the right ones, and not equal."""
    ref = reference("gpt2")
    with imported(EXAMPLES / "ordinary_gpt.py") as module:
        model, x = of_folder(ref, module.load), torch.arange(24)[None]

    with torch.no_grad():
        theirs, right = model(x), ref.model(x)

    torch.testing.assert_close(theirs, right, atol=1e-3, rtol=0)
    assert (theirs - right).abs().max() > 1e-4


def test_what_the_worked_examples_show_is_in_the_examples():
    """Each line of code on that page, but the `...` that leaves some out, is a line of an example."""
    shown = [block.text for block in blocks(ROOT / "docs/worked-examples.md") if block.language == "python"]
    written = {line.strip() for file in EXAMPLES.glob("*.py") for line in file.read_text(encoding="utf-8").splitlines()}

    lines = {line.strip() for text in shown for line in text.splitlines() if not line.strip().startswith("...")}
    assert lines - written == set()
