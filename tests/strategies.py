"""Random models and inputs for property tests (Hypothesis)."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from transformulary.paper import (
    SLOTS,
    Causal,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    Fixed,
    Full,
    Local,
    PreEDTransformerConfig,
    Prefix,
    Strided,
)

settings.register_profile("transformulary", deadline=None)  # the first call may import a large library
settings.load_profile("transformulary")

ARCHITECTURES = (DTransformerConfig, ETransformerConfig, EDTransformerConfig, PreEDTransformerConfig)

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
rules = st.one_of(
    st.sampled_from([Causal(), Full()]),
    st.builds(Local, st.integers(1, 4)),
    st.builds(Strided, st.integers(1, 4)),
    st.integers(1, 4).flatmap(lambda s: st.builds(Fixed, st.just(s), st.integers(1, s))),
    st.builds(Prefix, st.integers(0, 4)),
)
masks = rules | st.builds(lambda a, b: a | b, rules, rules)
causal_masks = masks.filter(lambda mask: mask.causal)


@st.composite
def shared(draw, architecture, positions):
    """What every small model has: every slot, free widths, grouped queries, any parameters absent."""
    H_kv, group = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    optional = sorted(architecture.optional - {"W_p", "W_s"})  # these follow from positions and segments
    sizes = {
        "N_V": draw(st.integers(2, 7)),
        "ell_max": 6,
        "H": H_kv * group,
        "H_kv": H_kv,
        "d_e": draw(st.sampled_from([4, 6])),
        "d_attn": draw(st.sampled_from([2, 4])),
        "d_mid": draw(st.integers(1, 3)),
        "d_mlp": draw(st.integers(1, 5)),
    }
    slots = {slot: draw(st.sampled_from(values)) for slot, values in SLOTS.items() if slot != "positions"}
    if sizes["d_attn"] == 2 and slots["frequencies"] == "dynamic":  # the one impossible pair
        slots["frequencies"] = "linear"
    slots |= {"factor": draw(st.sampled_from([1, 4.5])), "ell_train": draw(st.sampled_from([3, 300]))}
    return (
        sizes
        | slots
        | {
            "positions": draw(st.sampled_from(positions)),
            "eps": draw(st.sampled_from([1e-12, 1e-5])),
            "absent": draw(st.frozensets(st.sampled_from(optional))),
            "embedding_norm": draw(st.booleans()),
            "qk_norm": draw(st.booleans()),
            "tied": draw(st.booleans()),
        }
    )


@st.composite
def d_configs(draw, mask=masks, positions=SLOTS["positions"]):
    """Any small decoder."""
    cycle = draw(st.lists(mask, min_size=1, max_size=3))
    return DTransformerConfig(
        **draw(shared(DTransformerConfig, positions)), L=draw(st.integers(1, 2)), mask=tuple(cycle)
    )


@st.composite
def e_configs(draw):
    """Any small encoder."""
    both = draw(shared(ETransformerConfig, SLOTS["positions"]))
    d_f = both["d_e"] if both["tied"] else draw(st.integers(1, 5))
    return ETransformerConfig(**both, L=draw(st.integers(1, 2)), d_f=d_f, segments=draw(st.integers(0, 3)))


@st.composite
def ed_configs(draw):
    """Any small encoder-decoder, of Algorithm 8 or 8a."""
    positions = [kind for kind in SLOTS["positions"] if kind not in ("rotary", "relative")]
    kind, more = EDTransformerConfig, {}
    if draw(st.booleans()):
        kind, more = PreEDTransformerConfig, {"unembedding_scale": draw(st.sampled_from(["none", "sqrt"]))}
    both = draw(shared(kind, positions))
    tables = ["W_e", "W_p"] if both["positions"] == "learned" else ["W_e"]
    more["separate"] = draw(st.frozensets(st.sampled_from(tables)))
    return kind(**both, **more, L_enc=draw(st.integers(1, 2)), L_dec=draw(st.integers(1, 3)))


configs = st.one_of(d_configs(), e_configs(), ed_configs())


def sequences(N_V, least=1, most=6):
    return st.lists(st.integers(0, N_V - 1), min_size=least, max_size=most)
