"""Random masks and random small models of every architecture with every choice (Hypothesis)."""

from hypothesis import settings
from hypothesis import strategies as st

from transformulary.paper import (
    SLOTS,
    Causal,
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    Fixed,
    Full,
    Local,
    Mask,
    Prefix,
    Strided,
)

settings.register_profile("transformulary", deadline=None)  # the first call may import a large library
settings.load_profile("transformulary")

ARCHITECTURES = (DTransformerConfig, ETransformerConfig, EDTransformerConfig)


def plain_masks(largest: int = 9) -> st.SearchStrategy[Mask]:
    """One rule, its numbers at most `largest`."""
    size = st.integers(1, largest)
    return st.one_of(
        st.just(Full()),
        st.just(Causal()),
        st.builds(Local, size),
        st.builds(Strided, size),
        size.flatmap(lambda stride: st.builds(Fixed, st.just(stride), st.integers(1, stride))),
        st.builds(Prefix, st.integers(0, largest)),
    )


def masks(largest: int = 9) -> st.SearchStrategy[Mask]:
    """One rule, or the union of several."""
    rule = plain_masks(largest)
    return rule | st.builds(lambda a, b: a | b, rule, rule) | st.builds(lambda a, b, c: a | b | c, rule, rule, rule)


@st.composite
def choices(draw: st.DrawFn, architecture: type[Config]) -> dict[str, object]:
    """A value of every slot; no contradictions."""
    chosen: dict[str, object] = {slot: draw(st.sampled_from(values)) for slot, values in SLOTS.items()}
    if architecture is EDTransformerConfig and chosen["positions"] in ("rotary", "relative"):
        chosen["positions"] = "learned"
    chosen |= {name: draw(st.booleans()) for name in ("embedding_norm", "tied")}
    chosen["eps"] = draw(st.sampled_from([0.0, 1e-12, 1e-5]))
    chosen["base"] = draw(st.sampled_from([10000.0, 500000.0]))
    chosen["absent"] = draw(st.frozensets(st.sampled_from(sorted(architecture.optional - {"W_p", "W_s"}))))
    return chosen


@st.composite
def configs(draw: st.DrawFn, architectures: tuple[type[Config], ...] = ARCHITECTURES) -> Config:
    """A config of one of `architectures`, small enough to run, every size and every slot varied."""
    architecture = draw(st.sampled_from(architectures))
    small = st.integers(1, 5)
    H_kv = draw(st.integers(1, 3))
    sizes = {
        "N_V": draw(st.integers(4, 12)),
        "ell_max": draw(st.integers(1, 10)),
        "H": H_kv * draw(st.integers(1, 3)),
        "H_kv": H_kv,
        "d_e": 2 * draw(small),
        "d_mlp": draw(small),
        "d_attn": 2 * draw(small),
        "d_mid": draw(small),
    }
    chosen = draw(choices(architecture))
    if architecture is DTransformerConfig:
        sizes |= {"L": draw(small), "mask": tuple(draw(st.lists(masks(), min_size=1, max_size=3)))}
    elif architecture is ETransformerConfig:
        d_f = sizes["d_e"] if chosen["tied"] else draw(small)
        sizes |= {"L": draw(small), "d_f": d_f, "segments": draw(st.integers(0, 3))}
    else:
        sizes |= {"L_enc": draw(small), "L_dec": draw(small)}
    return architecture(**sizes, **chosen)
