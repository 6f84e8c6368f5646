"""Masks as values: equation (3), section 7 of the paper, the Sparse Transformer's patterns."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import masks, rules
from transformulary.errors import ConfigError
from transformulary.paper import (
    Causal,
    DTransformerConfig,
    Fixed,
    Full,
    Local,
    Mask,
    Prefix,
    Strided,
    Union,
    cache_bytes,
    parse_mask,
)


def matrix(mask, ell):
    """The paper's Mask: rows are keys t_z, columns are queries t_x."""
    t_z, t_x = np.indices((ell, ell))
    return mask(t_z, t_x)


def keys(mask, t_x, ell):
    """What token t_x may attend to; both count from 1."""
    return {t_z + 1 for t_z in range(ell) if mask(t_z, t_x - 1)}


def test_true_means_may_attend():
    """The causal mask lets a token attend to an earlier one and not to a later one."""
    assert [True, True, False] == [Causal()(t_z, 1) for t_z in range(3)]


def test_the_paper_has_a_causal_mask_that_is_upper_triangular():
    """Rows are keys and columns queries: Mask[t_z, t_x] = [[t_z <= t_x]], the diagonal included."""
    assert np.array_equal(np.triu(np.ones((5, 5), bool)), matrix(Causal(), 5))


def test_a_causal_average_of_values():
    """Equal scores: token t gets the mean of the first t values (neither diagonal dropped nor triangle flipped)."""
    allowed = matrix(Causal(), 3)

    assert [1.0, 1.5, 7 / 3] == list(np.array([1, 2, 4]) @ allowed / allowed.sum(0))


def test_the_strided_pattern_is_a_union():
    """Window and stride 3 over 8 tokens: 21 and 15 allowed pairs, 28 of the 36 causal ones in all."""
    both = Local(3) | Strided(3)

    assert [21, 15, 28, 36] == [matrix(m, 8).sum() for m in (Local(3), Strided(3), both, Causal())]
    assert {2, 5, 6, 7, 8} == keys(both, 8, 8)
    assert {1} == keys(both, 1, 8)


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (Full(), {1, 2, 3, 4, 5, 6, 7}),
        (Causal(), {1, 2, 3, 4, 5}),
        (Local(1), {5}),
        (Local(2), {4, 5}),
        (Strided(2), {1, 3, 5}),
        (Fixed(3, 1), {3, 4, 5}),
        (Fixed(3, 2), {2, 3, 4, 5}),
        (Prefix(0), {1, 2, 3, 4, 5}),
        (Prefix(6), {1, 2, 3, 4, 5, 6}),
    ],
)
def test_what_the_fifth_of_seven_tokens_sees(mask, expected):
    """Each rule by hand, for token 5 of 7."""
    assert expected == keys(mask, 5, 7)


@given(st.integers(1, 20), st.integers(0, 20))
def test_prefix_is_the_printed_rule(t_x, n):
    """The prefix mask is [[t_z <= max(n, t_x)]] with positions from 1."""
    assert {t_z for t_z in range(1, 26) if t_z <= max(n, t_x)} == keys(Prefix(n), t_x, 25)


@given(st.integers(1, 7), st.data(), st.integers(1, 25))
def test_fixed_is_the_union_of_its_two_heads(stride, data, t_x):
    """Fixed(s, c) = A1 or A2: the same block, or the last c of any block; positions from 1."""
    c = data.draw(st.integers(1, stride))
    block = {t for t in range(1, t_x + 1) if (t - 1) // stride == (t_x - 1) // stride}
    summary = {t for t in range(1, t_x + 1) if (t - 1) % stride >= stride - c}

    assert block | summary == keys(Fixed(stride, c), t_x, 25)


def reachable(first, second):
    """Pairs (t_z, t_x) with a token in between that sees t_z under `first` and is seen by t_x under `second`."""
    return (first.astype(int) @ second.astype(int)) > 0


@given(st.integers(1, 30), st.integers(1, 9))
def test_two_strided_steps_reach_everything_before(ell, stride):
    """Whichever causal pair: one local step of at most `stride` tokens back and one strided step join it."""
    nearby, strided = matrix(Local(stride), ell), matrix(Strided(stride), ell)

    assert np.array_equal(matrix(Causal(), ell), reachable(strided, nearby))


@given(st.integers(1, 30), st.integers(1, 9))
def test_two_fixed_steps_reach_everything_before(ell, stride):
    """Whichever causal pair: two steps under Fixed(stride, 1) join it, through the summary of a block."""
    fixed = matrix(Fixed(stride, 1), ell)

    assert np.array_equal(matrix(Causal(), ell), reachable(fixed, fixed))


@given(masks, st.integers(1, 12), st.integers(1, 12))
def test_ints_arrays_and_tensors_agree(mask, ell_z, ell_x):
    """One rule serves ints, NumPy arrays and torch tensors, and always answers with booleans."""
    torch = pytest.importorskip("torch")
    one_by_one = [[mask(t_z, t_x) for t_x in range(ell_x)] for t_z in range(ell_z)]
    array = mask(np.arange(ell_z)[:, None], np.arange(ell_x))
    tensor = mask(torch.arange(ell_z)[:, None], torch.arange(ell_x))

    assert {bool} == {type(value) for row in one_by_one for value in row}
    assert (np.dtype(bool), torch.bool) == (array.dtype, tensor.dtype)
    assert one_by_one == array.tolist() == tensor.tolist()


@given(masks)
def test_causal_says_whether_any_token_sees_a_later_one(mask):
    """`causal` is true exactly where the mask lies in the causal triangle (at any length: 12 shows every rule here)."""
    inside = not (matrix(mask, 12) & ~matrix(Causal(), 12)).any()

    assert inside == mask.causal


@given(masks, st.integers(1, 12), st.integers(0, 12))
def test_a_prefix_of_the_mask_is_the_mask_of_the_prefix(mask, ell, more):
    """A rule compares positions, so a longer sequence changes nothing between the tokens that were there."""
    assert np.array_equal(matrix(mask, ell), matrix(mask, ell + more)[:ell, :ell])


@given(masks)
def test_every_token_sees_itself(mask):
    """No rule leaves a token without anything to attend to."""
    assert matrix(mask, 12).diagonal().all()


@given(masks, masks)
def test_a_union_allows_what_either_allows(a, b):
    """`a | b` is the elementwise or, in either order the same value, and nothing new when repeated."""
    union = a | b

    assert np.array_equal(matrix(a, 12) | matrix(b, 12), matrix(union, 12))
    assert union == b | a
    assert hash(union) == hash(b | a)
    assert union == union | a == b | union


@given(masks)
def test_text_and_back(mask):
    """parse_mask reads what str writes, and repr is Python for the same value."""
    assert mask == parse_mask(str(mask))
    assert mask == eval(repr(mask))


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("full", Full()),
        ("local( 256 )", Local(256)),
        ("fixed(8, 2)", Fixed(8, 2)),
        ("strided(3)|local(3)", Local(3) | Strided(3)),
        ("causal | causal", Causal()),
    ],
)
def test_spellings(text, mask):
    """Blanks and order do not matter."""
    assert mask == parse_mask(text)


@pytest.mark.parametrize(
    "text", ["", "lcoal(3)", "local", "local()", "local(3,4)", "local(3", "local(x)", "causal(1)", "causal |", "Causal"]
)
def test_a_misspelt_mask_is_an_error(text):
    """The message quotes the text and lists every form."""
    with pytest.raises(ConfigError) as error:
        parse_mask(text)

    assert (
        f"mask {text!r} is none of full, causal, local(width), strided(stride), fixed(stride,summary), prefix(n), "
        "nor several of them joined by |."
    ) == str(error.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Local(0), "Local: width = 0 must be a whole number, at least 1."),
        (lambda: Local("3"), "Local: width = '3' must be a whole number, at least 1."),
        (lambda: Local(True), "Local: width = True must be a whole number, at least 1."),
        (lambda: Local(2.0), "Local: width = 2.0 must be a whole number, at least 1."),
        (lambda: Strided(-1), "Strided: stride = -1 must be a whole number, at least 1."),
        (lambda: Fixed(4, 0), "Fixed: summary = 0 must be a whole number, at least 1."),
        (lambda: Prefix(-1), "Prefix: n = -1 must be a whole number, at least 0."),
        (lambda: parse_mask("local(0)"), "Local: width = 0 must be a whole number, at least 1."),
        (lambda: parse_mask("prefix(-2)"), "Prefix: n = -2 must be a whole number, at least 0."),
        (lambda: Union((Causal(),)), "Union: masks = (Causal(),) must hold at least two that differ."),
        (
            lambda: Union((Causal(), Causal())),
            "Union: masks = (Causal(), Causal()) must hold at least two that differ.",
        ),
        (lambda: Union((Causal(), 3)), "Union: masks = (Causal(), 3) must be a tuple of masks."),
        (lambda: Union([Causal(), Full()]), "Union: masks = [Causal(), Full()] must be a tuple of masks."),
        (
            lambda: Fixed(2, 3),
            "Fixed: summary = 3 is more than stride = 2: "
            "a block of stride tokens has no more than these to be its summary.",
        ),
    ],
)
def test_wrong_numbers_are_errors(make, message):
    """However a mask is made, a number that is not whole or too small is a ConfigError."""
    with pytest.raises(ConfigError) as error:
        make()

    assert message == str(error.value)


def test_a_mask_joins_only_masks():
    """`|` with something else is Python's own TypeError; the common base is not a rule."""
    with pytest.raises(TypeError):
        Causal() | "full"
    with pytest.raises(TypeError):
        Mask()


@given(rules, st.integers(1, 12))
def test_a_cache_keeps_every_key_that_will_be_used(mask, ell):
    """The `kept` nearest keys are all that token ell and any later one may use; no fewer would do (but for Fixed)."""
    allowed = matrix(mask, 40)
    needed = max(ell - t_z for t_z in range(ell) if allowed[t_z, ell - 1 :].any())

    assert needed == mask.kept(ell) or (isinstance(mask, Fixed) and needed < mask.kept(ell))


@pytest.mark.parametrize(("mask", "kept"), [(Local(3) | Local(5), 5), (Local(3) | Strided(3), 20), (Local(30), 20)])
def test_how_many_of_twenty_keys_are_kept(mask, kept):
    """The widest member of a union decides, and there are no more than there are."""
    assert kept == mask.kept(20)


@pytest.mark.parametrize("n", [17, 400, 3000])
def test_a_mask_of_too_many_parts(n):
    """More parts than any model joins are refused at once, however they are joined."""
    with pytest.raises(ConfigError, match=f"a mask joins {n} parts, and 16 are more than any model has"):
        parse_mask(" | ".join(f"local({width})" for width in range(1, n + 1)))
    with pytest.raises(ConfigError, match=f"a mask joins {n} parts"):
        Union(tuple(Local(width) for width in range(1, n + 1)))


def test_masks_of_layers_that_do_not_exist():
    """A cycle longer than the layers ends with them: what no layer has is neither shown nor counted."""
    config = DTransformerConfig(N_V=5, ell_max=4, L=1, H=1, d_e=2, d_mlp=2, mask=("causal", "full"))

    assert ((Causal(),), True) == (config.mask, config.remembers)
    assert cache_bytes(replace(config, mask=("causal",)), 4) == cache_bytes(config, 4)
