"""The draft of a table of places: every line where it is, or left out."""

import re
from dataclasses import replace

import pytest
import torch

import huggingface as hf
from conform.ordinary import GPT, Ordinary, build, theta_of
from transformulary.conform import Reference, conform
from transformulary.conform.candidates.places import read_table
from transformulary.conform.candidates.propose import propose
from transformulary.errors import CandidateError

X = [3, 1, 4, 1, 5, 9, 2, 6]


def test_a_model_that_nobody_has_described():
    """Without a table the error says how to draft one; the draft finds every line, mistake or not."""
    theirs, table, ref = build(GPT)
    with pytest.raises(CandidateError, match="--propose"):
        conform(theirs, ref, tokens=X)

    draft = propose(theirs, ref)

    for path, place in table.places.items():
        assert f'"{path}" = "{place}"' in draft


def test_the_draft_of_a_model_without_a_batch_axis():
    """Modules that are given and give (T, d) show their lines as those with a batch of one do."""
    theirs, table, ref = build(GPT)
    wte = theirs.wte.forward
    theirs.wte.forward = lambda ids: wte(ids)[0]
    for block in theirs.blocks:
        block.forward = lambda x, forward=block.forward: forward(x[None])[0]

    draft = propose(theirs, ref)

    for path, place in table.places.items():
        assert f'"{path}" = "{place}"' in draft


@pytest.mark.parametrize("faults", [{"no-scale": 1}, {"no-scale": 0}, {"no-scale": 2}, {"no-norm-5": 1},
                                    {"no-norm-7": 2}, {"rms-for-layer-norm": 0, "no-mask": 2}, {"act-ReLU": 3},
                                    {"no-residual-8": 2}, {"heads-reversed": 1}], ids=str)  # fmt: skip
def test_the_draft_of_a_model_that_is_wrong(faults):
    """A real mistake, in whichever layer, hides no place; the draft says where values are not the oracle's."""
    theirs, table, ref = build(replace(GPT, faults=faults))

    draft = propose(theirs, ref)

    for path, place in table.places.items():
        assert f'"{path}" = "{place}"' in draft
    assert "no value near" not in draft


def test_the_draft_of_a_model_without_its_final_norm():
    """No place that shows one line is proposed for another, however near: the line is left out, its module is named."""

    class Unfinished(Ordinary):
        def forward(self, ids):
            e = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
            for block in self.blocks:
                e = block(e)
            return self.head(e)

    theirs, _, ref = build(GPT, kind=Unfinished)
    near = theirs.blocks[2]
    with torch.no_grad():
        near.mlp.down.weight.zero_()  # line 8 adds but a bias, so that with the same norm lines 7 and 10 are near
    ref.theta.W_mlp2[2][:] = 0
    ref.theta.gamma[:], ref.theta.beta[:] = ref.theta.gamma_2[2], ref.theta.beta_2[2]

    draft = propose(theirs, ref).splitlines()

    assert '# "10.10" = ""  # no value near the oracle\'s was seen; leave it out, or name the module' in draft
    assert re.search(r"\bln_f\b", next(line for line in draft if line.startswith("# Never called: ")))
    assert '"10.7[l]" = "blocks.{l}.ln_2:out"' in {line.partition("  #")[0] for line in draft}


def test_a_draft_says_how_near_each_layer_is():
    """Where one layer is off, the line's comment gives every layer's distance, the ones before it as rounding."""
    theirs, _, ref = build(replace(GPT, faults={"no-norm-7": 2}))

    (line,) = (line for line in propose(theirs, ref).splitlines() if line.startswith('"10.7[l]"'))

    assert re.search(r"# differs from the oracle's, by \de-1\d, \de[-+]0\d, \de[-+]0\d layer by layer$", line)


@pytest.mark.parametrize("hidden", [False, True], ids=["of its class", "of no class"])
def test_a_draft_is_right_of_what_is_right(hidden, tmp_path):
    """The draft of a right Llama in float64 agrees with it: it has the lines that are in float32, known or seen."""
    theirs, config, theta = hf.llama(exact=False)
    if hidden:
        theirs.__class__ = type("Mine", (torch.nn.Module,), dict(vars(type(theirs))))
    file, ref = tmp_path / "places.toml", Reference("llama", config, theta)

    file.write_text(propose(theirs, ref))
    table = read_table(file)
    report = conform(theirs, ref, tokens=X, table=table, decoding=False)

    assert report.status == 0, report
    assert set(table.lower) == {"10.5", "10.6", "10.7", "10.10"}


@pytest.mark.parametrize("same", ["10.6", "10.8"])
def test_a_draft_leaves_out_what_cannot_be_told(same):
    """A sub-block whose last weights are 0 leaves X as it was: whose place it is, no value says."""
    theirs, _, ref = build(GPT)
    for block in theirs.blocks:
        last = block.attn.o if same == "10.6" else block.mlp.down
        last.weight.data.zero_(), last.bias.data.zero_()
    ref = Reference("zero", ref.config, theta_of(theirs, ref.config))

    draft = propose(theirs, ref)

    assert f'# "{same}[l]" = ""  # its place cannot be told: the values are also those of 10.' in draft


def test_a_draft_of_one_number_a_token():
    """A norm of one number does not depend on it, so that no norm shows what it is given."""
    theirs, config, theta = hf.gpt2(seed=1, d_e=1, H=1)

    draft = propose(theirs, Reference("narrow", config, theta))

    assert '"10.8[l]" = "transformer.h.{l}:out"' in draft


class Tapped(torch.nn.Module):
    """A model of which only the outputs of its blocks can be seen."""

    def __init__(self, whole):
        super().__init__()
        self.whole = [whole]  # none of its modules
        self.taps = torch.nn.ModuleList(torch.nn.Identity() for _ in whole.blocks)

    def forward(self, ids):
        (whole,) = self.whole
        e = whole.wte(ids) + whole.wpe(torch.arange(ids.shape[1]))
        for block, tap in zip(whole.blocks, self.taps, strict=True):
            e = tap(block(e))
        return {"logits": whole.head(whole.ln_f(e))}


def test_what_is_one_line_is_no_other_however_near():
    """Where the MLP adds little to X, the place of line 8 is not taken for line 6's; what it returns is line 11."""
    theirs, _, ref = build(GPT)
    with torch.no_grad():
        for block in theirs.blocks:
            block.mlp.down.weight.mul_(0.1), block.mlp.down.bias.mul_(0.1)
    ref = Reference("little", ref.config, theta_of(theirs, ref.config))

    draft = propose(Tapped(theirs), ref).splitlines()

    places = [line.partition("  #")[0] for line in draft if line.startswith('"')]
    assert places == ['"10.8[l]" = "taps.{l}:out"', '"10.11" = ":out"']


def test_the_draft_of_a_module_that_is_called_twice():
    """It is no place, and is named; what it is given and gives is found elsewhere, or left out."""
    theirs, _, ref = build(GPT)
    for block in theirs.blocks:
        block.ln_2.forward = lambda x, of, ln=block.ln_1: ln(x, of)

    draft = propose(theirs, ref)

    assert "# Called more than once, and so no places: blocks.0.ln_1, blocks.1.ln_1, blocks.2.ln_1." in draft
    assert '"10.5[l]" = "blocks.{l}.attn:in"' in draft
