"""A PyTorch model as a candidate: its table of places, its draft, its output, its weights; and values by path."""

import copy
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import huggingface as hf
from conform.ordinary import GPT, Ordinary, build
from transformulary.conform import Candidate, Reference, conform
from transformulary.conform.candidates.places import make_table, read_table
from transformulary.conform.candidates.propose import propose
from transformulary.conform.reference import reference
from transformulary.errors import CandidateError, UserError
from transformulary.oracle import record, watched

X = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.mark.parametrize("make", [hf.gpt2, hf.gpt_neo, hf.llama], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["eager", "sdpa"])
def test_no_false_alarm_on_transformers(make, kind):
    """GPT-2, GPT-Neo and Llama of `transformers` agree, eager and sdpa, cached, padded and in a batch."""
    theirs, config, theta = make() if make is not hf.llama else make(exact=False)
    theirs.set_attn_implementation(kind if make is not hf.gpt_neo else "eager")

    report = conform(theirs, Reference(make.__name__, config, theta), tokens=X)

    assert report.status == 0, report
    assert report.faults == ()


def test_ours_agrees():
    """Our own fast model agrees, and with its cache."""
    report = conform("ours", "gpt2")

    assert report.status == 0
    assert [n.says.partition(":")[0] for n in report.notes if n.status == "agrees"][1:] == [
        "with a cache",
        "in a batch",
        "with a cache in a batch",
    ]


def test_values_are_enough():
    """Values by path, from wherever they come."""
    ref = reference("gpt2")

    report = conform({"10.11": np.full((37, 2), 1 / 37)}, ref, tokens=[1, 2])

    assert report.status == 1
    assert "no known mistake explains it" in report.answer[0]
    assert "the fault may be in lines 3, 5, 6, 7, 8, 10 as well, which were not seen" in report.answer[0]


def test_a_table_of_ones_own(tmp_path):
    """A table from TOML; unknown keys and places are errors that name them."""
    theirs, table, ref = build(GPT)
    file = tmp_path / "places.toml"
    file.write_text("[places]\n" + "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in table.places.items()))

    report = conform(theirs, ref, tokens=X, table=read_table(file))

    assert report.status == 0
    for content, says in (
        ({"place": {}}, "has place"),
        ({"places": {"10.3": "no side"}}, "is no place"),
    ):
        with pytest.raises(CandidateError, match=says):
            make_table(content, "table")
    with pytest.raises(CandidateError, match="no such module"):
        conform(theirs, ref, tokens=X, table=make_table({"places": {"10.3": "here:in"}}, "table"))
    with pytest.raises(CandidateError, match=r"10.55\[l=1\] is no value of this run. Nearest: 10.5\[l=1\]"):
        conform(theirs, ref, tokens=X, table=make_table({"places": {"10.55[l]": "blocks.{l}:in"}}, "table"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("line", "place", "shown"),
    [
        ("10.6[l]", "blocks.{l}.attn:out", "what is shown at 10.6[l] is not line 6 but what line 6 adds to X"),
        ("10.8[l]", "blocks.{l}:in", "what is shown at 10.8[l] is not line 8 but line 3"),
        ("10.10", "ln_f:in", "what is shown at 10.10 is not line 10 but line 8 of layer 3"),
    ],
)
def test_a_wrong_place_is_no_fault_of_the_model(line, place, shown, dtype):
    """Where the logits prove the model right, what is said is what the place shows; no mistake is named."""
    theirs, table, ref = build(GPT, dtype=dtype)

    report = conform(theirs, ref, tokens=X, table=replace(table, places={**table.places, line: place}), decoding=False)

    assert report.status == 1
    assert not report.faults
    assert report.answer[0].startswith("Places: the logits of the whole run agree (to ")
    assert shown in report.answer[0]
    assert {row.line: row.status for row in report.rows}[line.removesuffix("[l]")] == "not seen"


def test_a_wrong_place_hides_no_mistake_of_the_model():
    """A wrong model is not excused; a mistake that the logits do not show stays a mistake."""
    theirs, table, ref = build(replace(GPT, faults={"act-ReLU": 3}))
    places = {**table.places, "10.6[l]": "blocks.{l}.attn:out"}
    inner = "10.6[l=1]/5.2[h=1]/4.2"
    values = record("DTransformer", X, ref.theta, ref.config)
    seen = {inner: values[inner] - ref.theta.W[0].b_k[0][:, None], "10.11": values["10.11"]}

    wrong = conform(theirs, ref, tokens=X, table=replace(table, places=places), decoding=False)
    unseen = conform(seen, ref, tokens=X)

    assert wrong.faults
    assert not [note for note in wrong.notes if note.kind == "places"]
    assert [fault.key for fault in unseen.faults] == ["no-b_k"]


@pytest.mark.parametrize(("path", "place", "says"), [
    ("10.7[l]", "head:out", r"^head:out: 10.7\[l=1\] has the shape \(37, 8\), and \(24, 8\) is"),
    ("10.3", ("blocks.0", lambda given, out: out[:, :3]), r"^blocks.0: 10.3 has the shape \(24, 3\), and \(24, 8\) is"),
    ("10.1", "blocks.0:in", r"10.1 is not compared"),
    ("10.7[l]", "blocks.{l}.ln_2:out.1", r"^blocks.0.ln_2:out.1 is not there: the module gives 1, counted from 0"),
    ("10.10", "head:in.9", r"^head:in.9 is not there: the module is given 2, counted from 0"),
    ("10.7[l]", "blocks.{k}.ln_2:in", r"at blocks.{k}.ln_2, and the model has no such module; of braces, only {l}"),
    ("10.7[l]", "blocks.{.ln_2:in", r"at blocks.{.ln_2, and the model has no such module"),
], ids=lambda v: v if isinstance(v, str) else v[0])  # fmt: skip
def test_a_place_that_shows_something_else(path, place, says):
    """A value of another shape is the place's fault, and it is named; so is one that is not there."""
    theirs, table, ref = build(GPT)
    places = make_table({"places": {**table.places, path: place}}, "table")

    with pytest.raises(CandidateError, match=says):
        conform(theirs, ref, tokens=X, table=places)


@pytest.mark.parametrize(("content", "says"), [
    ("places = 3", "places = 3 is no table of path = place"),
    ("lower = []", r"lower = \[\] is no table of line = precision"),
    ('lower = {"10.5" = "float8"}', "lower 10.5 = 'float8'; it is float64 or float32"),
    ('[lower]\n"10.99" = "float32"', "lower says 10.99, and that is no line of this run. Nearest: 10.8"),
    ('[places]\n"10.5[l]" = "blocks.{l}.ln_1:in.x"', "is no place"),
    ('[places]\n"10.5[l]" = "blocks.0.ln_1:out"', r"10.5\[l\] = 'blocks.0.ln_1:out' counts layers on one side only"),
    ('[places]\n"10.5[l=1]" = "blocks.{l}.ln_1:out"', r"10.5\[l=1\] = .* counts layers on one side only"),
    ("# \xff", "places.toml is not UTF-8: byte 0xff at offset 2"),
    ("\xef\xbb\xbfplaces = 3", "places = 3 is no table"),  # after a byte-order mark
])  # fmt: skip
def test_a_table_that_cannot_be_read(content, says, tmp_path):
    """One sentence says what is wrong with a table of places."""
    theirs, _, ref = build(GPT)
    file = tmp_path / "places.toml"
    places = "" if "places" in content else '\n[places]\n"10.5[l]" = "blocks.{l}.ln_1:out"\n'
    file.write_bytes((content + places).encode("latin-1"))

    with pytest.raises(UserError, match=says):
        conform(theirs, ref, tokens=X, table=read_table(file))


def test_a_module_of_several_names():
    """A module that stands at two places is seen at each in its turn: right if that is right, else by its fault."""
    theirs, table, ref = build(GPT)
    act = torch.nn.GELU("tanh")
    for block in theirs.blocks:
        block.mlp = torch.nn.Sequential(block.mlp.up, act, block.mlp.down)
        block.also = block.ln_2
    places = {**table.places, "10.8[l]:GELU_tanh": "blocks.{l}.mlp.1:out", "10.7[l]": "blocks.{l}.also:out"}
    right = conform(theirs, ref, tokens=X, decoding=False, table=replace(table, places=places))
    for block in theirs.blocks:
        block.ln_2 = block.ln_1
    wrong = conform(theirs, ref, tokens=X, table=table, decoding=False)

    assert (right.status, right.unseen) == (0, ()), right
    assert [fault.says for fault in wrong.faults] == ["the parameters of the first norm are used"]


def test_a_compiled_model():
    """torch.compile puts a model under a name of its own: the built-in table knows it, and one's own is told it."""
    theirs, config, theta = hf.gpt2()
    compiled = torch.compile(theirs, backend="eager")
    ref = Reference("gpt2", config, theta)

    assert conform(compiled, ref, tokens=X, decoding=False).status == 0
    with pytest.raises(CandidateError, match=r"no such module: torch.compile calls it _orig_mod\.transformer\.ln_f"):
        conform(compiled, ref, tokens=X, table=make_table({"places": {"10.10": "transformer.ln_f:out"}}, "table"))


class Again(torch.nn.Module):
    """Calls a module that stands elsewhere."""

    def __init__(self, other):
        super().__init__()
        self.call = other.__call__

    def forward(self, *given):
        return self.call(*given)


def test_a_place_that_is_called_twice_or_never():
    """It shows no line, which is said; the mistake that calls it twice is found by the other places."""
    theirs, table, ref = build(GPT)
    theirs.spare = torch.nn.Identity()
    for block in theirs.blocks:
        block.ln_2 = Again(block.ln_1)
    places = {path: place for path, place in table.places.items() if path != "10.7[l]"} | {"10.3": "spare:out"}

    report = conform(theirs, ref, tokens=X, table=replace(table, places=places), decoding=False)

    never, often = (note.says for note in report.notes if note.kind == "places")
    assert never == "never called: spare"
    assert often.endswith("once: blocks.0.ln_1, blocks.1.ln_1, blocks.2.ln_1")
    assert [fault.says for fault in report.faults] == ["the parameters of the first norm are used"]
    assert {"3", "5", "7"} <= set(report.unseen)


class TokensFirst(Ordinary):
    """Values are (T, B, width), whatever its modules are called."""

    def __init__(self, s):
        super().__init__(s)
        self.after = torch.nn.ModuleList(torch.nn.Identity() for _ in self.blocks)

    def forward(self, ids):
        e = self.wte(ids.T) + self.wpe(torch.arange(ids.shape[1]))[:, None]
        for block, after in zip(self.blocks, self.after, strict=True):
            e = after(block(e.transpose(0, 1)).transpose(0, 1))
        return self.head(self.ln_f(e))


def test_a_batch_of_one_is_left_out_wherever_its_axis_is():
    """Values and logits of (ell, 1, d) are those of (1, ell, d); the draft finds them."""
    theirs, _, ref = build(GPT, kind=TokensFirst)
    places = {"10.8[l]": "after.{l}:out", "10.10": "ln_f:out"}

    report = conform(theirs, ref, tokens=X, table={"places": places}, decoding=False)
    draft = propose(theirs, ref)

    assert [row.line for row in report.rows if row.status == "agrees"] == ["10.8", "10.10", "10.11"]
    assert '"10.10" = "ln_f:out"' in draft
    assert '"10.11" = "head:out"' in draft


def test_a_model_may_work_in_place():
    """What is seen at a place is kept as it was there, whatever the model does to it later."""

    class InPlace(torch.nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, x):
            return x.copy_(self.block(x))

    theirs, table, ref = build(GPT)
    theirs.blocks = torch.nn.ModuleList(map(InPlace, theirs.blocks))
    places = {path: place.replace("{l}", "{l}.block").replace("blocks.0", "blocks.0.block")
              for path, place in table.places.items()}  # fmt: skip

    report = conform(theirs, ref, tokens=X, table=replace(table, places=places), decoding=False)

    assert report.status == 0, report


def test_a_place_may_be_a_function():
    """What no side of a module shows, a function of its inputs and output gives."""
    theirs, table, ref = build(GPT)
    places = {"10.8[l]": ("blocks.{l}.mlp", lambda given, out: given[0] * 0 + out)}
    seen = {**table.places, "10.7[l]": ("blocks.{l}.mlp", lambda given, out: given[0])}

    report = conform(theirs, ref, tokens=X, table=make_table({"places": seen}, "table"), decoding=False)

    assert report.status == 0
    assert callable(places["10.8[l]"][1])


def test_a_transposed_weight_is_named():
    """A square matrix that is transposed is remarked on as a tensor, and named as the mistake."""
    theirs, table, ref = build(GPT)
    broken = copy.deepcopy(theirs)
    broken.blocks[0].attn.o.weight.data = broken.blocks[0].attn.o.weight.data.T.contiguous()

    report = conform(broken, ref, tokens=X, table=table, decoding=False)

    assert [(n.status, n.says) for n in report.notes if n.status != "agrees"] == [("note", "W_o[1]: transposed")]
    assert [fault.key for fault in report.faults] == ["W_o-transposed"]


def test_a_candidate_of_its_own():
    """Whoever has the values builds the Candidate; its token ids are compared first."""
    report = conform(Candidate("mine", {}, x=(1, 2, 3)), "gpt2", tokens=[1, 2, 4])

    assert report.status == 1
    assert report.answer[0] == "Tokens: 3 ids, and 3 are right; the first difference is token 3: 3, and 4 is right."


def test_values_within_attention():
    """Masked scores, minus infinity in both, agree; a wrong weight of attention is described where no mistake fits."""
    ref, seen = reference("gpt2"), {}

    def keep(path, value):
        if re.search(r"/4\.([1-6]|6:softmax)$", path):
            seen[path] = np.array(value)
        return value

    watched(keep).DTransformer(X, ref.theta, ref.config)
    right = conform(seen, ref, tokens=X)
    for path in ("10.6[l=2]/5.2[h=2]/4.6:softmax", "10.6[l=2]/5.2[h=2]/4.6"):
        seen[path] *= 1.001
    wrong = conform(seen, ref, tokens=X)

    assert np.isinf(seen["10.6[l=1]/5.2[h=1]/4.5"]).any()
    assert right.status == 0, right
    assert [(fault.key, fault.paths) for fault in wrong.faults] == [("", ("10.6[l=2]/5.2[h=2]/4.6:softmax",))]


def test_a_model_that_is_made_double_after_loading():
    """The numbers of a preset are numbers of float32: a model that loads them so, and is `double()` after, is right."""
    ref = reference("gpt2")
    theirs = copy.deepcopy(ref.model).float().double()

    report = conform(theirs, ref, tokens=X, decoding=False)

    assert (report.status, report.agreement < 1e-12) == (0, True), report
