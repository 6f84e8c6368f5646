"""The oracle's models with PyTorch's autograd underneath: an independent gradient for the complex step."""

import numpy as np
import torch

from transformulary.oracle import Theta


def torch_theta(theta: Theta) -> Theta:
    """The same parameters as float64 tensors that require a gradient; arrays that are one stay one."""
    seen: dict[int, torch.Tensor] = {}

    def tensor(array):
        if id(array) not in seen:
            seen[id(array)] = torch.tensor(array, dtype=torch.float64, requires_grad=True)
        return seen[id(array)]

    return theta.map(tensor)


def numpy_grad(theta: Theta) -> Theta:
    """The gradients of torch_theta's tensors; a parameter that the loss does not use has 0."""
    return theta.map(lambda t: np.zeros(t.shape) if t.grad is None else t.grad.numpy())


def sgd_step(theta: Theta, eta: float) -> None:
    """theta <- theta - eta * gradient, by torch.optim.SGD."""
    optimiser = torch.optim.SGD(theta.leaves(), lr=eta)
    optimiser.step()
    optimiser.zero_grad()


def attention(X, Z, W, c, mask=None):
    """Algorithms 4 and 5 by torch.nn.functional, tokens as columns; mask[t_x, t_z] true = may attend."""
    heads = []
    for h in range(c.H):
        Q = (W.W_q[h] @ X + W.b_q[h][:, None]).T
        K = (W.W_k[h] @ Z + W.b_k[h][:, None]).T
        V = (W.W_v[h] @ Z + W.b_v[h][:, None]).T
        heads.append(torch.nn.functional.scaled_dot_product_attention(Q[None], K[None], V[None], attn_mask=mask)[0].T)
    return W.W_o @ torch.cat(heads) + W.b_o[:, None]


def norm(X, gamma, beta, eps):
    return torch.nn.functional.layer_norm(X.T, (X.shape[0],), gamma, beta, eps).T


def mlp(X, act, W1, b1, W2, b2):
    return W2 @ act(W1 @ X + b1[:, None]) + b2[:, None]


def causal(ell):
    return torch.ones(ell, ell, dtype=torch.bool).tril()


def d_log_probabilities(x, theta, c):
    """log P of Algorithm 10, (N_V, ell)."""
    X = theta.W_e[:, x] + theta.W_p[:, : len(x)]
    for l in range(c.L):
        tilde = norm(X, theta.gamma_1[l], theta.beta_1[l], c.eps)
        X = X + attention(tilde, tilde, theta.W[l], c, causal(len(x)))
        tilde = norm(X, theta.gamma_2[l], theta.beta_2[l], c.eps)
        act = torch.nn.functional.gelu
        X = X + mlp(tilde, act, theta.W_mlp1[l], theta.b_mlp1[l], theta.W_mlp2[l], theta.b_mlp2[l])
    return torch.log_softmax(theta.W_u @ norm(X, theta.gamma, theta.beta, c.eps), 0)


def e_log_probabilities(x, theta, c):
    """log P of Algorithm 9."""
    gelu = torch.nn.functional.gelu
    X = theta.W_e[:, x] + theta.W_p[:, : len(x)]
    for l in range(c.L):
        X = norm(X + attention(X, X, theta.W[l], c), theta.gamma_1[l], theta.beta_1[l], c.eps)
        change = mlp(X, gelu, theta.W_mlp1[l], theta.b_mlp1[l], theta.W_mlp2[l], theta.b_mlp2[l])
        X = norm(X + change, theta.gamma_2[l], theta.beta_2[l], c.eps)
    X = norm(gelu(theta.W_f @ X + theta.b_f[:, None]), theta.gamma, theta.beta, c.eps)
    return torch.log_softmax(theta.W_u @ X, 0)


def ed_log_probabilities(z, x, theta, c):
    """log P of Algorithm 8."""
    relu = torch.relu
    Z = theta.W_e[:, z] + theta.W_p[:, : len(z)]
    for l in range(c.L_enc):
        Z = norm(Z + attention(Z, Z, theta.W_enc[l], c), theta.gamma_1[l], theta.beta_1[l], c.eps)
        change = mlp(Z, relu, theta.W_mlp1[l], theta.b_mlp1[l], theta.W_mlp2[l], theta.b_mlp2[l])
        Z = norm(Z + change, theta.gamma_2[l], theta.beta_2[l], c.eps)
    X = theta.W_e[:, x] + theta.W_p[:, : len(x)]
    for l in range(c.L_dec):
        X = norm(X + attention(X, X, theta.W_dec[l], c, causal(len(x))), theta.gamma_3[l], theta.beta_3[l], c.eps)
        X = norm(X + attention(X, Z, theta.W_ed[l], c), theta.gamma_4[l], theta.beta_4[l], c.eps)
        change = mlp(X, relu, theta.W_mlp3[l], theta.b_mlp3[l], theta.W_mlp4[l], theta.b_mlp4[l])
        X = norm(X + change, theta.gamma_5[l], theta.beta_5[l], c.eps)
    return torch.log_softmax(theta.W_u @ X, 0)


def assert_close(theta: Theta, other: Theta, atol: float) -> None:
    """Two points of parameter space agree in every entry; the message names the first array that does not."""
    for (name, a), b in zip(theta.items(), other.leaves(), strict=True):
        b = b.detach().numpy() if isinstance(b, torch.Tensor) else b
        np.testing.assert_allclose(a, b, rtol=0, atol=atol, err_msg=name)
