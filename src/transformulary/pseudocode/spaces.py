"""From which sets the names are that boxes declare, and the parameters of the paper's smaller boxes."""

from __future__ import annotations

from transformulary.paper.parameters import OF_CLASSES, Shapes
from transformulary.pseudocode.nodes import Apply, Fence, Node, Num, Power, Sym, Words

#: Name -> the set it is from: a shape of real numbers ("d_x ell_x"), or one of SETS and a shape.
SPACES = {
    "v": "V",
    "ell": "[ell_max]",
    "T": "naturals",
    "delta": "integers",
    "s": "[segments] length(x)",
    "p": "Delta(V)",
    "p_C": "Delta([N_C])",
    "e": "d_e",
    "e_": "d_e",
    "e_p": "d_e",
    "e_hat": "d_e",
    "r": "d_e",
    "q": "d_attn",
    "q_hat": "d_attn",
    "X": "d_x ell_x",
    "Z": "d_z ell_z",
    "V_tilde": "d_out ell_x",
    "v_tilde": "d_out",
    "Mask": "{0,1} ell_z ell_x",
    "x": "V*",
    "z": "V*",
    "y": "V*",
    "x_hat": "V*",
    "P": "(0,1) N_V length(x)",
    "theta": "d",
    "theta_hat": "d",
    "N_epochs": "naturals",
    "ell_gen": "naturals",
    "eta": "(0,∞)",
    "tau": "(0,∞)",
    "p_mask": "(0,1)",
    "g": "d",
    "i": "steps",
    "omega": "memory",
    "w": "(V*)*",
    "D": "((V*)*)*",
}
#: What lines are told beside their arguments, wherever it is printed: practice, and sizes of which no array says them.
TOLD = {
    "N_steps": "naturals",
    "N_batch": "naturals",
    "N_acc": "naturals",
    "alpha": "(0,1)",
    "beta_m": "[0,1)",
    "beta_v": "[0,1)",
    "epsilon": "[0,∞)",
    "decay": "[0,∞)",
    "eta_embedding": "(0,∞)",
    "g_max": "(0,∞)",
    "eta_floor": "[0,∞)",
    "N_warmup": "naturals",
    "N_total": "naturals",
    "T_total": "(0,∞)",
    "special": "2^V",
    "top_k": "naturals",
    "top_p": "(0,1)",
    "N_V": "naturals",
    "ell_max": "naturals",
    "ell_train": "naturals",
}
#: Special tokens, which the paper declares with its vocabulary; algorithms that are not its own declare them.
SPECIAL = {"mask_token": "V", "bos_token": "V", "eos_token": "V"}
#: Values that a result has besides: the rate at a floor of 0.
RESULTS = {"eta": "[0,∞)"}
_STRINGS = Power(Sym("vocabulary"), Words("*"))
#: What batches are made of, where nothing is cut into windows: elements of any set A.
GENERIC = {"V*": "A", "((V*)*)*": "(A*)*"}
_ANY = Sym("A", plain=True)
SETS: dict[str, Node] = {
    "A": _ANY,
    "(A*)*": Power(Fence("()", (Power(_ANY, Words("*")),)), Words("*")),
    "naturals": Sym("naturals"),
    "integers": Sym("integers"),
    "V": Sym("vocabulary"),
    "V*": _STRINGS,
    "(V*)*": Power(Fence("()", (_STRINGS,)), Words("*")),
    "((V*)*)*": Power(Fence("()", (Power(Fence("()", (_STRINGS,)), Words("*")),)), Words("*")),
    "(0,1)": Fence("()", (Num(0), Num(1)), ","),
    "(0,∞)": Fence("()", (Num(0), Sym("inf")), ","),
    "[0,1)": Fence("[)", (Num(0), Num(1)), ","),
    "[0,∞)": Fence("[)", (Num(0), Sym("inf")), ","),
    "2^V": Power(Num(2), Sym("vocabulary")),
    "{0,1}": Fence("{}", (Num(0), Num(1)), ","),
    "Delta(V)": Apply(Sym("Delta"), (Sym("vocabulary"),)),
    "Delta([N_C])": Apply(Sym("Delta"), (Fence("[]", (Sym("N_C"),)),)),
}
_HEAD: Shapes = {
    "W_q": "d_attn d_x",
    "b_q": "d_attn",
    "W_k": "d_attn d_z",
    "b_k": "d_attn",
    "W_v": "d_out d_z",
    "b_v": "d_out",
}
#: Algorithm -> its parameters, as the paper declares them.
PARAMETERS: dict[str, Shapes] = {
    "1": {"W_e": "d_e N_V"},
    "2": {"W_p": "d_e ell_max"},
    "3": {name: str(shape).replace("d_x", "d_e").replace("d_z", "d_e") for name, shape in _HEAD.items()},
    "4": _HEAD,
    "5": {
        "W_q[H]": "d_attn d_x",
        "b_q[H]": "d_attn",
        "W_k[H_kv]": "d_attn d_z",
        "b_k[H_kv]": "d_attn",
        "W_v[H_kv]": "d_mid d_z",
        "b_v[H_kv]": "d_mid",
        "W_o": "d_out H*d_mid",
        "b_o": "d_out",
    },
    "6": {"gamma": "d_e", "beta": "d_e"},
    "6r": {"gamma": "d_e", "beta": "d_e"},
    "7": {"W_u": "N_V d_e"},
    "9c": {**OF_CLASSES},
}
