"""What the documents claim beside their blocks."""

from pathlib import Path

import torch

from transformulary.conform.candidates.opened import import_file, of_folder
from transformulary.conform.reference import reference

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_mistake_of_the_ordinary_gpt_is_easily_missed():
    """With the mistake that README shows, logits are within 1e-3 of the right ones, and not equal."""
    ref = reference("gpt2")
    model, x = of_folder(ref, import_file(EXAMPLES / "ordinary_gpt.py").load), torch.arange(24)[None]

    with torch.no_grad():
        theirs, right = model(x), ref.model(x)

    torch.testing.assert_close(theirs, right, atol=1e-3, rtol=0)
    assert (theirs - right).abs().max() > 1e-4
