"""Rounding is exact, and every operation of the oracle rounds."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from strategies import d_configs, seeds
from transformulary import oracle
from transformulary.errors import ConfigError
from transformulary.oracle import ACCUMULATED, PRECISIONS, in_precision, lazy_theta, notation, random_theta
from transformulary.paper import DTransformerConfig

LOW = [name for name in PRECISIONS if name != "float64"]
TORCH = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
#: The significand's bits, the exponent of the smallest number, the largest number.
PUBLISHED = {
    "float32": (24, -149, (2 - 2**-23) * 2.0**127),
    "bfloat16": (8, -133, (2 - 2**-7) * 2.0**127),
    "float16": (11, -24, 65504.0),
}


def rounded(x, precision):
    """Plain float64 numbers, rounded."""
    return np.asarray(oracle.rounded(np.array(x, np.float64), precision))


def bits(rng, n):
    """Float64 numbers of all magnitudes: any bits but those of infinities and what is no number."""
    numbers = rng.integers(0, 2**64, n, np.uint64).view(np.float64)
    return numbers[np.isfinite(numbers)]


@pytest.mark.parametrize("precision", LOW)
def test_rounding_is_that_of_torch(precision):
    """Every float32 rounds as torch casts it: ties to even, subnormal, signed zero, to infinity."""
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.integers(0, 2**32, 400_000, np.uint32).view(np.float32))
    halves = torch.arange(0, 2**16).to(torch.int16).view(TORCH[precision] if precision != "float32" else torch.float16)
    ties = (halves[:-1].float() + halves[1:].float()) / 2
    x = torch.cat([x, ties, torch.nextafter(ties, torch.tensor(0.0)), torch.tensor([0.0, -0.0, torch.inf, -torch.inf])])
    x = x[~x.isnan()]

    ours = rounded(x.double().numpy(), precision)

    theirs = x.to(TORCH[precision]).double().numpy()
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_float64_rounds_once(precision):
    """From float64, float32 and float16 are NumPy's casts, which round once."""
    x = bits(np.random.default_rng(1), 400_000)

    with np.errstate(over="ignore", under="ignore"):
        theirs = x.astype(precision).astype(np.float64)
    np.testing.assert_array_equal(rounded(x, precision), theirs)


def test_bfloat16_rounds_once():
    """Just above a tie of bfloat16 by less than float32 can hold: up, where a cast through float32 goes down."""
    x = 1 + 2.0**-8 + 2.0**-40

    assert rounded([x], "bfloat16").tolist() == [1 + 2.0**-7]
    assert torch.tensor(x, dtype=torch.float64).to(torch.bfloat16).item() == 1


@pytest.mark.parametrize("precision", LOW)
def test_the_nearest_number(precision):
    """No number of the format is nearer, by exact arithmetic; of two equally near ones, it is the even one."""
    p, least, largest = PUBLISHED[precision]
    rng = np.random.default_rng(2)
    x = rng.normal(size=2000) * 2.0 ** rng.integers(least - 2, 20, 2000)
    x = x[np.abs(x) < largest]

    for exact, got in zip(map(Fraction, x.tolist()), map(Fraction, rounded(x, precision).tolist()), strict=True):
        exponent = max(int(np.frexp(float(exact))[1]) - p, least)
        steps = exact / Fraction(2) ** exponent
        assert got == round(steps) * Fraction(2) ** exponent  # round of a Fraction is to even


@pytest.mark.parametrize("precision", LOW)
def test_limits(precision):
    """Half a step above the largest number is infinite; less is the largest. No number stays no number."""
    p, least, largest = PUBLISHED[precision]
    half = 2.0 ** (np.frexp(largest)[1] - p) / 2

    assert rounded([largest, largest + half, -largest - half], precision).tolist() == [largest, np.inf, -np.inf]
    assert rounded([np.nextafter(largest + half, 0)], precision).tolist() == [largest]
    assert rounded([2.0**least, 2.0 ** (least - 1), 0.75 * 2.0**least], precision).tolist() == [
        2.0**least,
        0,
        2.0**least,
    ]
    assert np.isnan(rounded([np.nan], precision)).all()


@pytest.mark.parametrize("precision", LOW)
def test_one_number_rounds_as_an_array(precision):
    """The arithmetic of single numbers is that of arrays."""
    x = np.concatenate([bits(np.random.default_rng(3), 20_000), [0.0, -0.0, np.inf, -np.inf, 5e-324]])
    number = PRECISIONS[precision].number

    ones = np.array([float(number.format.round_one(float(one))) for one in x])

    np.testing.assert_array_equal(ones, rounded(x, precision))
    np.testing.assert_array_equal(np.signbit(ones), np.signbit(x))


def test_a_number_of_another_precision():
    """A number that rounds its own operations is rounded as any other."""
    assert float(rounded(rounded(1.2265625, "bfloat16"), "float16")) == 1.2265625


def test_any_layout():
    """Transposed arrays and arrays with gaps round entry by entry."""
    x = np.random.default_rng(4).normal(size=(40, 60))

    for view in (x.T, x[::3, 1::2], x[::-1, ::-2], x[5], x[:, 7], x[..., None].swapaxes(0, 1), x[:0]):
        np.testing.assert_array_equal(rounded(view, "float32"), view.astype(np.float32))


SAME = {
    "a + b": lambda a, b: a + b,
    "a - b[0]": lambda a, b: a - b[0],
    "b[0] - a": lambda a, b: b[0] - a,
    "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a[0] * b[1] - a[2]": lambda a, b: a[0] * b[1] - a[2],
    "3 / a[0]": lambda a, b: 3 / a[0],
    "a ** 2": lambda a, b: a**2,
    "-a[1]": lambda a, b: -a[1],
}


@pytest.mark.parametrize("what", SAME)
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_arithmetic_is_that_of_the_hardware(precision, what):
    """Sums, differences, products and quotients are those of NumPy's own float32 and float16, bit for bit."""
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=300).astype(precision) for _ in range(2))

    ours = SAME[what](*(PRECISIONS[precision].narrow(v.astype(np.float64)) for v in (a, b)))

    np.testing.assert_array_equal(np.asarray(ours), SAME[what](a, b).astype(np.float64))


def test_sums_and_products_of_matrices_round_once():
    """Sums over an index and products of matrices are the exact ones, rounded: 1 + 2^-8 + 2^-8 is not 1 in bfloat16."""
    a = PRECISIONS["bfloat16"].narrow(np.array([1.0, 2.0**-8, 2.0**-8]))

    expected = 1 + 2.0**-7
    assert float(a[0] + a[1] + a[2]) == 1.0
    assert float(notation.sum(a[i] for i in range(3))) == expected
    assert float(a.sum()) == expected
    assert float(a @ np.ones(3)) == expected


@settings(max_examples=40)
@given(d_configs(), seeds)
def test_every_value_of_a_run_is_rounded(config, rng):
    """Whatever the slots, every value that depends on a parameter is a number of the precision."""
    theta = random_theta(config, rng)

    values = oracle.record("DTransformer", [0, 1, 1, 0], in_precision(theta, "bfloat16"), config)

    free = ("sin", "cos", "4r.1", "4d.", "/2", ":sqrt", ":offset", ":bucket", "10.1", ":sinusoid")
    for path, value in values.items():
        depends = not any(word in path for word in free) or (":sqrt" in path and "/6" in path)
        for array in value if isinstance(value, list) else [value]:
            if depends:
                exact = np.asarray(array, np.float64)
                np.testing.assert_array_equal(exact, rounded(exact, "bfloat16"), err_msg=path)


@pytest.mark.parametrize(("precision", "bound"), [("float32", 1e-6), ("bfloat16", 4e-2), ("float16", 5e-3)])
def test_the_error_is_that_of_the_precision(precision, bound):
    """P is near that of float64, and not nearer than the precision allows."""
    config = DTransformerConfig(N_V=31, ell_max=8, L=2, H=2, d_e=16, d_mlp=20, eps=1e-5)
    theta = random_theta(config, np.random.default_rng(0))

    P = oracle.DTransformer([1, 2, 3, 4], in_precision(theta, precision), config)

    error = np.abs(np.asarray(P) - oracle.DTransformer([1, 2, 3, 4], theta, config)).max()
    assert bound / 1000 < error < bound


def test_a_lazy_theta_is_rounded_lazily():
    """A lazy theta in low precision computes what the eager one does, and fetches nothing before it runs."""
    config = DTransformerConfig(N_V=31, ell_max=8, L=2, H=2, d_e=16, d_mlp=20, eps=1e-5, tied=True)
    theta = random_theta(config, np.random.default_rng(0))
    table, asked = dict(theta.items()), []
    lazy = lazy_theta(config, lambda name, shape: asked.append(name) or table[name], block=16 * 10)

    low = in_precision(lazy, "float16")
    before = list(asked)
    P = oracle.DTransformer([1, 2, 3], low, config)

    assert before == []
    np.testing.assert_allclose(
        np.asarray(P), np.asarray(oracle.DTransformer([1, 2, 3], in_precision(theta, "float16"), config)), rtol=2e-3
    )


def test_values_put_in_by_a_hook():
    """What a hook puts in is rounded on: the lines after it see numbers of the precision and give such numbers."""
    config = DTransformerConfig(N_V=31, ell_max=8, L=1, H=2, d_e=16, d_mlp=20, eps=1e-5)
    theta = in_precision(random_theta(config, np.random.default_rng(0)), "bfloat16")
    X, seen = np.random.default_rng(1).normal(size=(16, 3)), {}

    def hook(path, value):
        seen[path] = np.asarray(value)
        return oracle.rounded(X, "bfloat16") if path == "10.6[l=1]" else value

    oracle.watched(hook).DTransformer([1, 2, 3], theta, config)

    for path in ("10.7[l=1,t=2]/6.1", "10.7[l=1,t=2]/6.2", "10.7[l=1]", "10.8[l=1]"):
        np.testing.assert_array_equal(seen[path], rounded(seen[path], "bfloat16"), err_msg=path)
    column = rounded(X, "bfloat16")[:, 1]
    assert seen["10.7[l=1,t=2]/6.1"] == rounded(sum(rounded(column / 16, "bfloat16")), "bfloat16")


def test_float64_is_the_theta_itself():
    """Float64 changes nothing."""
    theta = random_theta(DTransformerConfig(N_V=3, ell_max=3, L=1, H=1, d_e=2, d_mlp=1), np.random.default_rng(0))

    assert in_precision(theta, "float64") is theta


def test_an_unknown_precision():
    """Another precision is an error that names those there are."""
    with pytest.raises(ConfigError, match="'fp8' is none of float64, float32, bfloat16, float16"):
        in_precision(oracle.Theta(), "fp8")


def test_overflow_is_infinite():
    """In float16 the square of 300 is infinite, as on hardware, and a sum of squares with it."""
    a = PRECISIONS["float16"].narrow(np.array([300.0, 1.0]))

    assert float(a[0] ** 2) == np.inf
    assert float(notation.sum(a[i] ** 2 for i in range(2))) == np.inf
    assert float(a[1] / (a[1] - a[1])) == np.inf


def test_products_summed_in_float32():
    """ACCUMULATED rounds every product and partial sum to float32, from the first term; PRECISIONS the result alone."""
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=n).astype(np.float32) for n in ((3, 40), (40, 2)))
    due = np.zeros((3, 2), np.float32)
    for k in range(40):
        due = (due + (a[:, [k]] * b[[k]]).astype(np.float32)).astype(np.float32)

    def product(kinds, a, b):
        narrow = kinds["float32"].narrow
        return np.asarray(narrow(a.astype(float)) @ narrow(b.astype(float)))

    np.testing.assert_array_equal(product(ACCUMULATED, a, b), due)
    np.testing.assert_array_equal(product(ACCUMULATED, a[0], b), due[0])
    np.testing.assert_array_equal(product(ACCUMULATED, a, b[:, 0]), due[:, 0])
    assert product(ACCUMULATED, a[0], b[:, 0]) == due[0, 0]
    np.testing.assert_array_equal(product(PRECISIONS, a, b), (a.astype(float) @ b.astype(float)).astype(np.float32))
    assert not np.array_equal(due, product(PRECISIONS, a, b))
