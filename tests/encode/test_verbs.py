"""fill, classify and embed in Python."""

import random
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

import transformulary
from encode.models import WORDS, saved
from transformulary import classify, embed, fill, load
from transformulary.encode import cosines
from transformulary.errors import CheckpointError, ConfigError, DataError, TokenError
from transformulary.nn import DTransformer
from transformulary.paper import DTransformerConfig
from transformulary.tokens import Tokenizer

VERBS = {"fill": fill, "classify": classify, "embed": embed}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Models in float64, by what they are asked for."""
    return {verb: load(saved(tmp_path_factory.mktemp(verb), verb)) for verb in VERBS}


def texts(n):
    """Texts of 1 to 8 words, a mask in each, long and short ones mixed."""
    draw = random.Random(0)
    words = [draw.choices(WORDS[5:], k=draw.randrange(8)) for _ in range(n)]
    return [" ".join(draw.sample([*some, "[MASK]"], len(some) + 1)) for some in words]


def probabilities(answers):
    """Every number that a verb says, one row for each text; in the order of ids, as the most probable first depends on
    rounding where two are equal."""
    if isinstance(answers, torch.Tensor):
        return [*answers]
    choices = [answer if isinstance(answer, list) else answer.masked[0].choices for answer in answers]
    return [torch.tensor([c.p for c in sorted(some, key=lambda c: c.id)], dtype=torch.float64) for some in choices]


@pytest.mark.parametrize("batch", [1, 4, 100])
@pytest.mark.parametrize("verb", VERBS)
def test_neither_batch_nor_padding_changes_an_answer(loaded, verb, batch):
    """Each text's answer is that of the text alone, and stands where the text stands."""
    all_of_them = {} if verb == "embed" else {"k": 0}
    alone = [probabilities(VERBS[verb](loaded[verb], text, **all_of_them))[0] for text in texts(30)]

    together = probabilities(VERBS[verb](loaded[verb], texts(30), batch=batch, **all_of_them))

    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_a_mask_is_filled_by_algorithm_9(loaded):
    """Probabilities are the softmax of the logits there; tokens are spelled, the most probable is the first."""
    model, ids = loaded["fill"].model, torch.tensor([[2, 5, 4, 7, 3]])
    p = model(ids, torch.zeros_like(ids))[0, 2].softmax(-1)

    (filled,) = fill(loaded["fill"], "the [MASK] sat", k=3)

    (masked,) = filled.masked
    values, best = p.topk(3)
    assert (filled.tokens, masked.t, masked.was) == (ids[0].tolist(), 3, None)
    assert [(c.id, c.name) for c in masked.choices] == [(i, (*WORDS, "", "")[i]) for i in best.tolist()]
    torch.testing.assert_close(torch.tensor([c.p for c in masked.choices]).double(), values.detach(), rtol=1e-6, atol=0)


def test_several_masks(loaded):
    """All masks of a text are asked for, in order."""
    one, other = fill(loaded["fill"], ["[MASK] cat [MASK]", "a [MASK]"])

    assert [[2, 4], [3]] == [[masked.t for masked in filled.masked] for filled in (one, other)]


def test_each_token_in_turn(loaded):
    """Each is hidden alone; what stands there has its own probability, and is recovered where it is the first."""
    (filled,) = fill(loaded["fill"], "the cat sat", k=0, each=True)

    hidden = fill(loaded["fill"], ["[MASK] cat sat", "the [MASK] sat", "the cat [MASK]"], k=0)
    assert [2, 3, 4] == [masked.t for masked in filled.masked]
    for masked, alone in zip(filled.masked, hidden, strict=True):
        assert [c.id for c in alone.masked[0].choices] == [c.id for c in masked.choices]
        assert next(c.p for c in masked.choices if c.id == masked.was.id) == masked.was.p
    assert filled.recovered == sum(m.was.id == m.choices[0].id for m in filled.masked)


def test_classes_have_names(tmp_path):
    """Probabilities are those of Algorithm 9c; a class is called what config.json calls it."""
    loaded = load(saved(tmp_path, "classify", id2label={"0": "joy", "1": "anger", "2": "fear"}))
    ids = torch.tensor([[2, 5, 6, 3]])

    (classes,) = classify(loaded, "the cat")

    p = loaded(ids, torch.zeros_like(ids))[0].softmax(-1)
    assert sorted(p.tolist(), reverse=True) == pytest.approx([c.p for c in classes], abs=1e-14)
    assert {0: "joy", 1: "anger", 2: "fear"} == {c.id: c.name for c in classes}


@pytest.mark.parametrize(
    "names",
    [{"0": "joy", "1": "anger"}, {"1": "a", "2": "b", "3": "c"}, {"0": "a", "1": "b", "2": None}, 5],
)
def test_names_of_other_classes(tmp_path, names):
    """Names that are not those of the model's classes, one for each, are refused, and not passed over."""
    loaded = load(saved(tmp_path, "classify", id2label=names))

    with pytest.raises(
        CheckpointError, match=r"config\.json: id2label does not name the classes 0 to 2 of the weights"
    ):
        classify(loaded, "the cat")


def test_a_classifier_of_nothing(tmp_path):
    """No rows for classes: the file is named."""
    saved(tmp_path, "classify")
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    save_file({name: t[:0] if t.shape[0] == 3 else t for name, t in tensors.items()}, file, {"format": "pt"})

    with pytest.raises(CheckpointError, match=f"^{re.escape(str(tmp_path))}.* has no row for any class: N_C = 0"):
        load(tmp_path)


def test_names_that_nobody_gave(tmp_path):
    """The two names of a file whose author gave none are not taken for those of three classes."""
    loaded = load(saved(tmp_path, "classify", id2label={"0": "LABEL_0", "1": "LABEL_1"}))

    assert {"0", "1", "2"} == {c.name for c in classify(loaded, "the cat")[0]}


def test_classes_that_exclude_no_other(tmp_path):
    """Where several may be right, each has a probability of its own."""
    loaded = load(saved(tmp_path, "classify", problem_type="multi_label_classification"))
    ids = torch.tensor([[2, 5, 6, 3]])

    (classes,) = classify(loaded, "the cat")

    p = loaded(ids, torch.zeros_like(ids))[0].sigmoid()
    assert p.tolist() == pytest.approx([c.p for c in sorted(classes, key=lambda c: c.id)], abs=1e-14)


def test_a_vector_is_the_mean_of_the_tokens(loaded):
    """Special tokens belong to the text; its length is 1; products are cosines."""
    model, ids = loaded["embed"].model, torch.tensor([[2, 5, 6, 3]])
    mean = model.encode(ids, torch.zeros_like(ids))[0].mean(0)

    e = embed(loaded["embed"], ["the cat", "a dog"])

    torch.testing.assert_close(e[0], mean / mean.norm(), rtol=0, atol=1e-14)
    torch.testing.assert_close(cosines(3 * e), e @ e.T, rtol=0, atol=1e-14)


def test_any_encoder_gives_vectors(loaded):
    """What stands on top of the layers is left out."""
    model, ids = loaded["fill"].model, torch.tensor([[2, 5, 6, 3]])
    mean = model.encode(ids, torch.zeros_like(ids))[0].mean(0)

    torch.testing.assert_close(embed(loaded["fill"], "the cat")[0], mean / mean.norm(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("verb", VERBS)
def test_two_texts_are_one_sequence_of_two_segments(loaded, verb):
    """A pair is framed as the tokenizer says; the second text and its end are segment 1."""
    x, s = torch.tensor([[2, 5, 4, 3, 9, 13, 3]]), torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    said = loaded[verb](x, s)[0]

    (answer,) = VERBS[verb](loaded[verb], [("the [MASK]", "a ran")] if verb == "fill" else [("the cat", "a ran")])

    if verb == "fill":
        assert said[2].softmax(-1).max().item() == pytest.approx(answer.masked[0].choices[0].p, abs=1e-14)
    assert (loaded[verb].tokenizer.framed("the cat", "a ran").segments) == s[0].tolist()


@pytest.mark.parametrize("verb", VERBS)
def test_ids_instead_of_a_text(loaded, verb):
    """The ids of a text, with its special tokens, are the text."""
    ids = loaded[verb].tokenizer.framed("the [MASK] ran", special=True).ids
    text = "the [MASK] ran" if verb == "fill" else ids

    one, other = (probabilities(VERBS[verb](loaded[verb], [given])) for given in (text, ids))

    assert torch.equal(one[0], other[0])


def test_a_loaded_model_is_called_and_saved(loaded, tmp_path):
    """load(path), model(x), model.save(path)."""
    model, ids = loaded["embed"], torch.tensor([[2, 5, 6, 3]])

    model.save(tmp_path)

    s = torch.zeros_like(ids)
    assert torch.equal(model(ids, s), load(tmp_path)(ids, s))
    assert torch.equal(model(ids, s), model.model(ids, s))


@pytest.mark.parametrize(
    ("verb", "texts", "options", "error", "message"),
    [
        ("fill", "the cat", {}, DataError, r"text 1 has no mask: write \[MASK\] where"),
        ("fill", ["a [MASK]", ""], {}, DataError, "text 2 has no mask"),
        ("fill", "[MASK]", {"each": True}, DataError, "text 1 has none but special tokens"),
        ("fill", "[MASK]", {"k": -1}, ConfigError, "k = -1"),
        ("classify", ["a", "a " * 11], {}, DataError, "text 2 has 13 tokens, and .* ell_max = 12"),
        ("classify", [[]], {}, DataError, "text 1 is empty"),
        ("classify", [[2, 99, 3]], {}, TokenError, r"text 1 has the token id 99, outside the vocabulary .* \[0, 16\)"),
        ("embed", [[2, -1, 3]], {}, TokenError, "text 1 has the token id -1"),
        ("embed", "a", {"batch": 0}, ConfigError, "batch = 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered(loaded, verb, texts, options, error, message):
    """A text without what is asked for, too long or empty, and ids that there are not, are named with their numbers."""
    with pytest.raises(error, match=message):
        VERBS[verb](loaded[verb], texts, **options)


@pytest.mark.parametrize("verb", ["fill", "classify"])
@pytest.mark.parametrize("other", VERBS)
def test_another_kind_of_model(loaded, verb, other):
    """A verb asks only a model that gives what it asks for."""
    if verb != other:
        with pytest.raises(CheckpointError, match=f"that gives .*; `{verb}` needs an encoder that gives"):
            VERBS[verb](loaded[other], "a [MASK]")


@pytest.mark.parametrize("verb", VERBS)
def test_a_decoder_is_no_encoder(tmp_path, verb):
    """It gives the tokens that follow, and neither guesses masked ones, nor classes, nor vectors."""
    transformulary.save(tmp_path, DTransformer(DTransformerConfig(N_V=5, ell_max=8, L=1, H=1, d_e=4, d_mlp=4)))

    with pytest.raises(CheckpointError, match=f"that gives the tokens that follow; `{verb}` needs an encoder"):
        VERBS[verb](load(tmp_path), "a")


def test_vocabularies_that_lack_something(tmp_path):
    """Without a mask_token nothing is masked, and who does not say how two texts are framed frames none."""
    words = Tokenizer.train("characters", ["abc"])
    special = {role: token for role, token in words.special.items() if role != "mask_token"}
    pairs = load(saved(tmp_path / "pairs", "fill", words=words))
    masks = load(saved(tmp_path / "masks", "fill", words=Tokenizer(words.pipeline, special)))

    with pytest.raises(TokenError, match="names no mask_token"):
        fill(masks, "a")
    with pytest.raises(TokenError, match="does not say how a pair"):
        fill(pairs, [("a", "b")])


@pytest.mark.parametrize("about", [{"problem_type": "regression"}])
def test_one_number_is_no_class(tmp_path, about):
    """A regression has no probabilities."""
    with pytest.raises(CheckpointError, match="no probabilities of classes"):
        classify(load(saved(tmp_path, "classify", **about)), "a")


@pytest.mark.parametrize(
    ("verb", "what"), [("fill", "a probability"), ("classify", "a probability"), ("embed", "a number of a vector")]
)
def test_a_damaged_model_says_nothing(tmp_path, verb, what):
    """What is no number is said, and nothing is made of it."""
    loaded = load(saved(tmp_path, verb))
    with torch.no_grad():
        loaded.model.layers[1].norm_2.weight[0] = torch.nan

    with pytest.raises(CheckpointError, match=f"^the model gives nan as {what}"):
        VERBS[verb](loaded, "a [MASK]")
