"""Random models and inputs for property tests (Hypothesis)."""

import numpy as np
from hypothesis import strategies as st

from transformulary.paper import SLOTS, Causal, DTransformerConfig, Fixed, Full, Local, Prefix, Strided

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
masks = st.one_of(
    st.sampled_from([Causal(), Full()]),
    st.builds(Local, st.integers(1, 4)),
    st.builds(Strided, st.integers(1, 4)),
    st.integers(1, 4).flatmap(lambda s: st.builds(Fixed, st.just(s), st.integers(1, s))),
    st.builds(Prefix, st.integers(0, 4)),
)
causal_masks = masks.filter(lambda mask: mask.causal)


@st.composite
def d_configs(draw, mask=masks, positions=SLOTS["positions"]):
    """Any small decoder: every slot, free widths, grouped queries, any parameters absent."""
    H_kv, group = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    absent = draw(st.sets(st.sampled_from(["b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "beta", "b_u"])))
    return DTransformerConfig(
        N_V=draw(st.integers(2, 7)),
        ell_max=6,
        L=draw(st.integers(1, 2)),
        H=H_kv * group,
        H_kv=H_kv,
        d_e=draw(st.sampled_from([4, 6])),
        d_attn=draw(st.sampled_from([2, 4])),
        d_mid=draw(st.integers(1, 3)),
        d_mlp=draw(st.integers(1, 5)),
        mask=tuple(draw(st.lists(mask, min_size=1, max_size=2))),
        positions=draw(st.sampled_from(positions)),
        eps=draw(st.sampled_from([1e-12, 1e-5])),
        absent=frozenset(absent),
        embedding_norm=draw(st.booleans()),
        tied=draw(st.booleans()),
        **{
            slot: draw(st.sampled_from(SLOTS[slot]))
            for slot in ("norm", "activation", "mlp", "scale", "embedding_scale")
        },
    )


def sequences(N_V, least=1, most=6):
    return st.lists(st.integers(0, N_V - 1), min_size=least, max_size=most)
