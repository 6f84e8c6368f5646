r"""Every symbol of the paper and of our extensions, as data.

A symbol is spelled as its LaTeX command without backslash and braces (`ell_max`, `W_mlp1`, `gamma_1`), and with
accents after the letter (`X_tilde`).  The index of the layer (l) or of the head (h) is not part of a name.

Sources: `APPENDIX` is the paper's Appendix B, the list of notation; `BOXES` are symbols that only its
algorithms use; `OURS` are the names of what published models add; `PRACTICE` those of what training and inference add.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from transformulary.errors import ConfigError
from transformulary.paper.others import OTHERS


@dataclass(frozen=True)
class Symbol:
    """One symbol.

    name     our spelling, in code, configs and on the command line
    latex    for mathematics
    unicode  for a terminal
    space    the set it is an element of: the shape of an array ("d_e x N_V"), "N" for a size; "" for a notation
    meaning  in one line
    """

    name: str
    latex: str
    unicode: str
    space: str
    meaning: str

    @property
    def others(self) -> dict[str, str]:
        """Who -> what they call it, for those that have a name for it."""
        return {who: names[self.name] for who, names in OTHERS.items() if self.name in names}


def _table(text: str) -> tuple[Symbol, ...]:
    """One symbol a line, in columns that two spaces or more divide.

    "-" is nothing, "=" is the name again; \\b and \\r are short for \\boldsymbol and \\mathrm.
    """

    def row(line: str) -> Symbol:
        name, latex, unicode, space, meaning = re.split(" {2,}", line)
        latex = latex.replace(r"\b{", r"\boldsymbol{").replace(r"\r{", r"\mathrm{")
        return Symbol(name, latex, name if unicode == "=" else unicode, "" if space == "-" else space, meaning)

    return tuple(map(row, text.strip().splitlines()))


#: Appendix B of the paper, in its order.
APPENDIX = _table(r"""
[N]         [N]               =     -                the whole numbers 1, 2, ..., N
i           i                 =     N                an index of no fixed meaning
j           j                 =     N                another index of no fixed meaning
vocabulary  V                 V     [N_V]            the set of all tokens
N_V         N_V               =     N                how many tokens the vocabulary has
V*          V^*               =     -                all sequences of tokens, the empty one included
ell_max     \ell_{\max}       ℓ_max  N                length of the longest sequence, in tokens
ell         \ell              ℓ     [ell_max]        length of a sequence, in tokens
d_e         d_e               =     N                width of an embedding; d_... is any dimension
t           t                 =     [ell]            place of a token in its sequence
x           \b{x}             =     V^ell            the primary sequence of tokens
z           \b{z}             =     V^ell            the context sequence of tokens
M[i,j]      M[i,j]            =     R                entry of a matrix, in row i and column j
M[i,:]      M[i,:]            =     -                row i of a matrix
M[:,j]      M[:,j]            =     -                column j of a matrix
e           \b{e}             =     d_e              vector that stands for one token
X           \b{X}             =     d_e x ell_x      the primary sequence, a vector for every token
Z           \b{Z}             =     d_e x ell_z      the context sequence, a vector for every token
Mask        \r{Mask}          =     {0,1}^(ell_z x ell_x)  1 where token t_x (column) may use token t_z (row)
L           L                 =     N                layers
L_enc       L_{\r{enc}}       =     N                layers of the encoder
L_dec       L_{\r{dec}}       =     N                layers of the decoder
l           l                 =     [L]              number of a layer
H           H                 =     N                attention heads in a layer
h           h                 =     [H]              number of a head
N_data      N_{\r{data}}      =     N                sequences in the training data
n           n                 =     [N_data]         number of a training sequence
eta         \eta              η     (0,oo)           learning rate
tau         \tau              τ     (0,oo)           temperature of sampling
W_e         \b{W}_e           =     d_e x N_V        token embedding: column v stands for token v
W_p         \b{W}_p           =     d_e x ell_max    positional embedding: column t stands for place t
W_u         \b{W}_u           =     N_V x d_e        unembedding; d_f wide in Algorithm 9
W_q         \b{W}_q           =     d_attn x d_x     makes a token's query: what it looks for
b_q         \b{b}_q           =     d_attn           bias of the queries
W_k         \b{W}_k           =     d_attn x d_z     makes a token's key: what it is found by
b_k         \b{b}_k           =     d_attn           bias of the keys
W_v         \b{W}_v           =     d_mid x d_z      makes a token's value: what it tells
b_v         \b{b}_v           =     d_mid            bias of the values
W_qkv       \b{W}_{qkv}       =     -                the six parameters of one head, equation (4)
W_o         \b{W}_o           =     d_out x H*d_mid  joins the outputs of all heads
b_o         \b{b}_o           =     d_out            bias of the joined heads, one per layer
W           \b{\mathcal{W}}   𝓦     -                all parameters of one multi-head layer, equation (4)
W_mlp       \b{W}_{\r{mlp}}   =     -                any matrix of an MLP
b_mlp       \b{b}_{\r{mlp}}   =     -                any bias of an MLP
gamma       \b{\gamma}        γ     d_e              scale of a norm; the last norm's in Algorithms 9, 10
beta        \b{\beta}         β     d_e              offset of a norm; the last norm's in Algorithms 9, 10
theta       \b{\theta}        θ     R^d              all parameters of a model
theta_hat   \hat{\b{\theta}}  θ̂     R^d              parameters that training returns
""")

#: What only the algorithms of the paper name, not its list of notation.
BOXES = _table(r"""
ell_x       \ell_x                     ℓ_x    [ell_max]        length of the primary sequence
ell_z       \ell_z                     ℓ_z    [ell_max]        length of the context sequence
t_x         t_x                        =      [ell_x]          place of the token that asks
t_z         t_z                        =      [ell_z]          place of the token that is asked
T           T                          =      N                tokens of context in Algorithm 3
d_in        d_{\r{in}}                 =      N                width of the vectors that Algorithm 3 takes
d_x         d_x                        =      N                width of X
d_z         d_z                        =      N                width of Z
d_attn      d_{\r{attn}}               =      N                width of a query and of a key
d_value     d_{\r{value}}              =      N                width of a value, in the prose
d_mid       d_{\r{mid}}                =      N                width of a value of one head among several
d_out       d_{\r{out}}                =      N                width of what attention returns
d_mlp       d_{\r{mlp}}                =      N                width of the hidden layer of an MLP
d_f         d_f                        =      N                width of the final projection of Algorithm 9
q           \b{q}                      =      d_attn           query of one token
k           \b{k}                      =      d_attn           key of one token
alpha       \alpha                     α      [0,1]            share of attention that one token gets; label smoothing
Q           \b{Q}                      =      d_attn x ell_x   queries, one token a column
K           \b{K}                      =      d_attn x ell_z   keys, one token a column
V           \b{V}                      =      d_out x ell_z    values, one token a column
S           \b{S}                      =      ell_z x ell_x    scores: how well a key fits a query
Y           \b{Y}                      =      H*d_mid x ell_x  outputs of the heads, stacked
v_tilde     \tilde{\b{v}}              ṽ      d_out            what attention returns for one token
V_tilde     \tilde{\b{V}}              Ṽ      d_out x ell_x    what attention returns, one token a column
X_tilde     \tilde{\b{X}}              X̃      d_e x ell_x      X after a norm; X itself goes on unchanged
m           m                          =      R                mean of the elements of one vector
e_p         \b{e}_p                    =      d_e              vector that stands for a place
e_hat       \hat{\b{e}}                ê      d_e              a vector after its norm
p           \b{p}                      =      Delta(V)         probability of each token of the vocabulary
P           \b{P}                      =      N_V x ell        probabilities, one place a column
y           y                          =      V                a token just drawn; what Algorithm 14 returns
x_tilde     \tilde{\b{x}}              x̃      V^ell            training text with tokens masked
T_tilde     \tilde{T}                  T̃      -                places of the masked tokens
x_hat       \hat{\b{x}}                x̂      V*               the sequence that Algorithm 15 returns
loss        \r{loss}                   =      R                what training makes small
odot        \odot                      ⊙      -                product element by element
Delta       \Delta                     Δ      -                Delta(V): all distributions over the vocabulary
mask_token  \r{mask\_token}            =      [N_V]            N_V - 2: stands for a token to be guessed
bos_token   \r{bos\_token}             =      [N_V]            N_V - 1: begins a sequence
eos_token   \r{eos\_token}             =      [N_V]            N_V: ends a sequence
N_C         N_{\r{C}}                  =      N                classes, in classification
N_epochs    N_{\r{epochs}}             =      N                how often training goes through its data
p_mask      p_{\r{mask}}               =      (0,1)            probability that training masks a token
ell_gen     \ell_{\r{gen}}             ℓ_gen  N                how many tokens to generate
W_enc       \b{\mathcal{W}}^{\r{enc}}  𝓦^enc  -                attention of a layer of the encoder
W_dec       \b{\mathcal{W}}^{\r{dec}}  𝓦^dec  -                self-attention of a layer of the decoder
W_ed        \b{\mathcal{W}}^{\r{e/d}}  𝓦^{e/d}  -                attention of the decoder to the encoder's output
gamma_1     \b{\gamma}^1               γ¹     d_e              scale of the norm at attention (Algorithms 8 to 10)
beta_1      \b{\beta}^1                β¹     d_e              its offset
gamma_2     \b{\gamma}^2               γ²     d_e              scale of the norm at the MLP (Algorithms 8 to 10)
beta_2      \b{\beta}^2                β²     d_e              its offset
gamma_3     \b{\gamma}^3               γ³     d_e              scale of the norm at the decoder's self-attention
beta_3      \b{\beta}^3                β³     d_e              its offset
gamma_4     \b{\gamma}^4               γ⁴     d_e              scale of the norm at the attention to the encoder
beta_4      \b{\beta}^4                β⁴     d_e              its offset
gamma_5     \b{\gamma}^5               γ⁵     d_e              scale of the norm at the decoder's MLP
beta_5      \b{\beta}^5                β⁵     d_e              its offset
W_mlp1      \b{W}_{\r{mlp1}}           =      d_mlp x d_e      first matrix of an MLP (in Algorithm 8: the encoder's)
b_mlp1      \b{b}_{\r{mlp1}}           =      d_mlp            its bias
W_mlp2      \b{W}_{\r{mlp2}}           =      d_e x d_mlp      second matrix of an MLP (in Algorithm 8: the encoder's)
b_mlp2      \b{b}_{\r{mlp2}}           =      d_e              its bias
W_mlp3      \b{W}_{\r{mlp3}}           =      d_mlp x d_e      of the decoder's MLP its first; else what W_mlp1 gates
b_mlp3      \b{b}_{\r{mlp3}}           =      d_mlp            its bias
W_mlp4      \b{W}_{\r{mlp4}}           =      d_e x d_mlp      second matrix of the decoder's MLP
b_mlp4      \b{b}_{\r{mlp4}}           =      d_e              its bias
W_f         \b{W}_f                    =      d_f x d_e        final projection of Algorithm 9
b_f         \b{b}_f                    =      d_f              its bias
""")

#: What published models add: parameters, sizes and the choices of a config.
OURS = _table(r"""
b_u              \b{b}_u               =    N_V             bias of the unembedding (BERT)
W_e_z            \b{W}_e^z             W_e^z  d_e x N_V       token embedding of z, where it has its own
W_p_z            \b{W}_p^z             W_p^z  d_e x ell_max   positional embedding of z, where it has its own
W_s              \b{W}_s               =    d_e x segments  segment embedding (BERT), line 2a
gamma_x          \b{\gamma}_x          γ_x  d_e             scale of the norm of the primary sequence's embedding
beta_x           \b{\beta}_x           β_x  d_e             its offset
gamma_z          \b{\gamma}_z          γ_z  d_e             scale of the norm of the context's embedding
beta_z           \b{\beta}_z           β_z  d_e             its offset
gamma_q          \b{\gamma}_q          γ_q  d_attn          scale of the norm of every query
beta_q           \b{\beta}_q           β_q  d_attn          its offset
gamma_k          \b{\gamma}_k          γ_k  d_attn          scale of the norm of every key
beta_k           \b{\beta}_k           β_k  d_attn          its offset
W_mlp5           \b{W}_{\r{mlp5}}      =    d_mlp x d_e     of what W_mlp1 gates in the encoder's MLP of Algorithm 8
b_mlp5           \b{b}_{\r{mlp5}}      =    d_mlp           its bias
W_mlp6           \b{W}_{\r{mlp6}}      =    d_mlp x d_e     of what W_mlp3 gates in the decoder's MLP of Algorithm 8
b_mlp6           \b{b}_{\r{mlp6}}      =    d_mlp           its bias
gamma_enc        \b{\gamma}_{\r{enc}}  γ_enc  d_e           scale of the last norm of the encoder in Algorithm 8a
beta_enc         \b{\beta}_{\r{enc}}  β_enc  d_e            its offset
gamma_dec        \b{\gamma}_{\r{dec}}  γ_dec  d_e           scale of the last norm of the decoder in Algorithm 8a
beta_dec         \b{\beta}_{\r{dec}}  β_dec  d_e            its offset
B_enc            \b{B}_{\r{enc}}       =    32              the B of all layers of the encoder in Algorithm 8a
B_dec            \b{B}_{\r{dec}}       =    32              the B of all layers of the decoder in Algorithm 8a
Z_tilde          \tilde{\b{Z}}         Z̃    d_e x ell_z     Z after a norm in Algorithm 8a; Z itself goes on unchanged
p_C              \b{p}_C               =    Delta([N_C])    probability of each class (Algorithm 9c)
W_pool           \b{W}_{\r{pool}}      =    d_e x d_e       makes a text's vector of its first token's (Algorithm 9c)
b_pool           \b{b}_{\r{pool}}      =    d_e             its bias
W_c              \b{W}_c               =    N_C x d_e       makes scores of classes of it
b_c              \b{b}_c               =    N_C             its bias
u                \b{u}                 =    d_attn          added to a query that meets a key (relative positions)
v                \b{v}                 =    d_attn          added to a query that meets a distance (relative positions)
W_r              \b{W}_r               =    d_attn x d_e    makes a key of a distance (relative positions)
B                \b{B}                 =    32              added to a score, by bucket of distance (bucketed positions)
omega            \b{\omega}            ω    -               rotary angles per token; an optimiser's memory
H_kv             H_{\r{kv}}            =    [H]             heads of keys and values; H_kv = H is the paper
segments         \r{segments}          =    N               segments that W_s knows; 0 is none
norm             \r{norm}              =    -               which norm: lines 5, 7, 10 of Algorithm 10
eps              \varepsilon           ε    [0,oo)          added to the variance inside the root of a norm
activation       \r{activation}        =    -               which function bends the hidden layer of an MLP
mlp              \r{mlp}               =    -               whether an MLP has a gate
positions        \r{positions}         =    -               where tokens get their position from
base             \r{base}              =    (0,oo)          of rotary positions: omega_i = base^(-2 (i - 1) / d_attn)
frequencies      \r{frequencies}       =    -               how rotary frequencies are slowed down for long sequences
factor           \r{factor}            =    [1,oo)          by how much they are slowed down
ell_train        \ell_{\r{train}}      ℓ_train  N            tokens of a sequence in training, before that
beta_slow        \beta_{\r{slow}}      β_slow  (0,oo)       turns in ell_train tokens below which a frequency is slowed
beta_fast        \beta_{\r{fast}}      β_fast  (0,oo)       turns in ell_train tokens above which it is not
attention_factor  \r{attention\_factor}  =    (0,oo)        of rotated queries and keys
scale            \r{scale}             =    -               what scores are divided by
embedding_scale  \r{embedding\_scale}  =    -               what token embeddings are multiplied by
unembedding_scale  \r{unembedding\_scale}  =    -           what the last X is divided by in Algorithm 8a
embedding_norm   \r{embedding\_norm}   =    -               whether a norm follows the embedding, line 3a
qk_norm          \r{qk\_norm}         =    -               whether queries and keys are normed, lines 1a and 2a
tied             \r{tied}              =    -               whether W_u is W_e transposed
absent           \r{absent}            =    -               parameters that a model lacks: a declared 0
separate         \r{separate}          =    -               tables of the embedding that z has of its own
mask             \r{mask}              =    -               the rule that gives Mask, one or a cycle by layer
""")

#: What training and inference are told and make as they are practised: the lettered algorithms of 11 to 15.
PRACTICE = _table(r"""
d              d                        =         N         how many parameters the model has
g              g                        =         R^d       the gradient of an update, and what an optimiser makes of it
w              w                        =         -         windows of the sequences
D              D                        =         -         batches: what the updates learn from, in their order
N_steps        N_{\r{steps}}            =         N         how many updates are made
N_batch        N_{\r{batch}}            =         N         sequences in a batch
N_acc          N_{\r{acc}}              =         N         batches in an update
N_tokens       N_{\r{tokens}}           =         N         how many tokens the losses of a batch look at
N_warmup       N_{\r{warmup}}           =         N         steps in which the rate rises to its peak
N_total        N_{\r{total}}            =         N         the step after which the rate is at its floor
T_total        T_{\r{total}}            =         (0,oo)    the seconds after which it is, for a rate by the clock
eta_floor      \eta_{\r{floor}}         η_floor   [0,oo)    the lowest rate, as a fraction of the peak
eta_embedding  \eta_{\r{embedding}}     η_embedding  (0,oo)    rate of the embeddings, as a multiple of the others'
beta_m         \beta_m                  β_m       [0,1]     how much is kept of the mean of the gradient
beta_v         \beta_v                  β_v       [0,1]     how much is kept of the mean of its square
epsilon        \epsilon                 ε         [0,oo)    keeps a denominator from being 0
g_max          g_{\max}                 =         (0,oo)    the largest norm of a gradient
decay          \r{decay}                =         [0,oo)    weight decay: by how much matrices shrink at rate 1
clock          \r{clock}                =         -         seconds of training before each step
special        \r{special}              =         -         tokens that are never masked
top_k          \r{top\_k}               =         N         how many of the most probable tokens are left
top_p          \r{top\_p}               =         [0,1]     what probability the tokens left reach together
stop           \r{stop}                 =         -         tokens after which a text ends
""")

#: What formulas say besides: sets and numbers with names of their own, and letters that algorithms use in passing.
PASSING = _table(r"""
reals      \mathbb{R}          ℝ   -                the real numbers; with a size above, arrays of that shape
naturals   \mathbb{N}          ℕ   -                the whole numbers from 1
integers   \mathbb{Z}          ℤ   -                the whole numbers
inf        \infty              ∞   -                infinity
pi         \pi                 π   R                the circle's number
A          \b{A}               =   -                any matrix
a          a                   =   -                a number, or a row of them, of no fixed meaning
b          b                   =   -                another of no fixed meaning
i_fast     i_{\r{fast}}        i_fast  -            yarn: the pair that turns beta_fast times in ell_train tokens
i_slow     i_{\r{slow}}        i_slow  -            yarn: the pair that turns beta_slow times in ell_train tokens
r          \b{r}               =   d_e              vector that stands for a distance (relative positions)
s          \b{s}               =   -                segment of each token (BERT), line 2a of Algorithm 9
delta      \delta              δ   -                a distance: how many tokens back
q_hat      \hat{\b{q}}         q̂   d_attn           a query or key after its rotation
t_prime    t'                  t′  [ell]            place of the token that asks: the mask's column
P_hat      \hat{P}             P̂   -                what the model takes for P, by its parameters theta
""")

#: The functions that formulas name; pages define those that they use.
FUNCTIONS = _table(r"""
softmax     \r{softmax}         =   -                exp of every entry, divided by the sum of its column
GELU        \r{GELU}            =   -                x Phi(x) for every entry x
GELU_tanh   \r{GELU}_{\r{tanh}}  =  -               GELU as an approximation by tanh: GPT-2's
ReLU        \r{ReLU}            =   -                max(0, x) for every entry x
SiLU        \r{SiLU}            =   -                x / (1 + exp(-x)) for every entry x
Phi         \Phi                Φ   -                Phi(x): the probability that a standard normal number is below x
ramp        \r{ramp}            =   -                ramp(x, a, b): from 0 at a to 1 at b, in a straight line
bucket      \r{bucket}          =   -                T5's bucket of a distance, from 0 to 31 (bucketed positions)
sharing     \r{sharing}         =   -                the parameters of a layer with the B that all layers share
dropout     \r{dropout}         =   -                each entry 0 with a probability, else divided by what is left of 1
uniform     \r{uniform}         =   -                uniform(d): a random whole number from 0 to d - 1
joined      \r{joined}          =   -                one list of all that several lists have
chosen      \r{chosen}          =   -                places at random, for training to mask
corrupted   \r{corrupted}       =   -                the token that stands in the place of a masked one
matrices    \r{matrices}        =   -                parameters with 0 in place of what does not shrink
embeddings  \r{embeddings}      =   -                a gradient with 0 in place of all but the embeddings
likeliest   \r{likeliest}       =   -                a distribution with only its most probable tokens left
nucleus     \r{nucleus}         =   -                a distribution with only the tokens left that make up most of it
length      \r{length}          =   -                how many tokens a sequence has
exp         \r{exp}                =   -                the exponential function
log         \r{log}                =   -                the natural logarithm
sin         \r{sin}                =   -                the sine
cos         \r{cos}                =   -                the cosine
tanh        \r{tanh}               =   -                the hyperbolic tangent
erf         \r{erf}             =   -                the error function
min         \r{min}                =   -                the smaller of two numbers
max         \r{max}                =   -                the larger of two numbers
ceil        \r{ceil}            =   -                the least whole number that is not smaller
""")

#: Title -> its symbols.
GROUPS = {
    "The paper's list of notation": APPENDIX,
    "Only in its algorithms": BOXES,
    "Added by models": OURS,
    "Of training and inference": PRACTICE,
    "In passing": PASSING,
    "Functions": FUNCTIONS,
}
SYMBOLS = {symbol.name: symbol for group in GROUPS.values() for symbol in group}


def called(name: str) -> tuple[Symbol, ...]:
    """The symbols that anyone calls `name`: we (then it is one), LaTeX, a terminal, or another library.

    Several where others' names are not one to one: torch's num_layers is L, T5's is L_enc.  A member of a family is
    that: Mask_l is Mask, W_mlp1^l is W_mlp1.  Empty where nobody calls anything so.
    """
    spelled = (unicodedata.normalize("NFC", name), re.sub(r"[\\{}]|mathrm|boldsymbol", "", name))
    families = (one for whole in spelled for one in _families(whole))
    return next(filter(None, map(_exactly, (*spelled, *families))), ())


def _exactly(name: str) -> tuple[Symbol, ...]:
    if name in SYMBOLS:
        return (SYMBOLS[name],)
    return tuple(s for s in SYMBOLS.values() if name in {s.latex, s.unicode, *s.others.values()})


#: An index in the name of a member: _l, ^h, _{ell_z}, ¹.
INDEX = re.compile(r"[_^](\{[^{}]+\}|[^\W_¹²³⁴⁵]+)|[¹²³⁴⁵]")


def _families(name: str) -> Iterator[str]:
    """What a member's name may be without one of its indices, which are made of symbols: the last first."""
    for mark in reversed([*INDEX.finditer(name)]):
        words = re.findall(r"[^\W\d_¹²³⁴⁵]\w*", mark[0].lstrip("_^"))
        if all(any(word in (s.name, s.unicode) for s in SYMBOLS.values()) for word in words):
            yield name[: mark.start()] + name[mark.end() :]


def symbol(name: str) -> Symbol:
    """The first symbol that anyone calls `name`; ConfigError where nobody does."""
    if found := called(name):
        return found[0]
    near = get_close_matches(name, [*SYMBOLS, *(theirs for names in OTHERS.values() for theirs in names.values())], 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise ConfigError(f"no symbol is called {name!r}, in the paper or elsewhere.{hint}")
