"""BERT, the original Transformer and T5 as somebody writes them in NumPy, tokens as rows, for `conform` to call."""

import math

import numpy as np


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(X, Z, weights, mask):
    Q, K, V = X @ weights.W_q.T + weights.b_q, Z @ weights.W_k.T + weights.b_k, Z @ weights.W_v.T + weights.b_v
    return softmax(np.where(mask, Q @ K.T / np.sqrt(Q.shape[-1]), -np.inf)) @ V


def mha(X, Z, weights, mask):
    Q, K, V = X @ weights.W_q.T + weights.b_q, Z @ weights.W_k.T + weights.b_k, Z @ weights.W_v.T + weights.b_v
    Q, K, V = (np.stack(np.split(Y, weights.H, -1)) for Y in (Q, K, V))
    A = softmax(np.where(mask, Q @ K.swapaxes(1, 2) / np.sqrt(Q.shape[-1]), -np.inf))
    return np.concatenate(list(A @ V), -1) @ weights.W_o.T + weights.b_o


def norm(eps):
    def layer_norm(X, gamma, beta):
        return (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + eps) * gamma + beta

    return layer_norm


def relu(X):
    return np.maximum(X, 0)


def gelu(X):
    return X / 2 * (1 + np.vectorize(math.erf)(X / np.sqrt(2)))


def gelu_tanh(X):
    return X / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)))


def mlp_with(activation):
    def mlp(X, weights):
        return activation(X @ weights.W_mlp1.T + weights.b_mlp1) @ weights.W_mlp2.T + weights.b_mlp2

    return mlp


def unembedding(X, weights):
    return X @ weights.W_u.T + weights.b_u


# BERT


def embedding(tokens, weights, segments):
    return weights.W_e[tokens] + weights.W_p[: len(tokens)] + weights.W_s[segments]


def projection(X, weights):
    return gelu(X @ weights.W_f.T + weights.b_f)


def classification(X, weights):
    return weights.W_c @ np.tanh(weights.W_pool @ X[0] + weights.b_pool) + weights.b_c


bert_norm, bert_mlp = norm(1e-12), mlp_with(gelu)


def encoded(tokens, weights, segments, layer_norm=bert_norm):
    X = layer_norm(embedding(tokens, weights, segments), weights.gamma_x, weights.beta_x)
    for layer in weights.layers:
        X = layer_norm(X + mha(X, X, layer, True), layer.gamma_1, layer.beta_1)
        X = layer_norm(X + bert_mlp(X, layer), layer.gamma_2, layer.beta_2)
    return X


def ETransformer(x, theta, s, layer_norm=bert_norm):
    X = projection(encoded(x, theta, s, layer_norm), theta)
    return unembedding(layer_norm(X, theta.gamma, theta.beta), theta)


BERT = {
    "attention": attention, "mha": mha, "layer_norm": bert_norm, "activation": gelu, "mlp": bert_mlp,
    "embedding": embedding, "projection": projection, "unembedding": unembedding, "ETransformer": ETransformer,
}  # fmt: skip


# The original Transformer


def sinusoids(ell, d_e):
    angle = np.arange(ell)[:, None] / 10000 ** (2 * np.arange(d_e // 2) / d_e)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(ell, d_e)


def scaled_embedding(tokens, weights):
    d_e = weights.W_e.shape[1]
    return np.sqrt(d_e) * weights.W_e[tokens] + sinusoids(len(tokens), d_e)


layer_norm, mlp = norm(1e-6), mlp_with(relu)


def EDTransformer(z, x, theta):
    Z, X = scaled_embedding(z, theta), scaled_embedding(x, theta)
    for layer in theta.encoder:
        Z = layer_norm(Z + mha(Z, Z, layer, True), layer.gamma_1, layer.beta_1)
        Z = layer_norm(Z + mlp(Z, layer), layer.gamma_2, layer.beta_2)
    for layer in theta.decoder:
        X = layer_norm(X + mha(X, X, layer, np.tri(len(x)) > 0), layer.gamma_3, layer.beta_3)
        X = layer_norm(X + mha(X, Z, layer.W_ed, True), layer.gamma_4, layer.beta_4)
        X = layer_norm(X + mlp(X, layer), layer.gamma_5, layer.beta_5)
    return unembedding(X, theta)


def pre_norm(z, x, theta):
    Z, X = scaled_embedding(z, theta), scaled_embedding(x, theta)
    for layer in theta.encoder:
        Y = layer_norm(Z, layer.gamma_1, layer.beta_1)
        Z = Z + mha(Y, Y, layer, True)
        Z = Z + mlp(layer_norm(Z, layer.gamma_2, layer.beta_2), layer)
    for layer in theta.decoder:
        Y = layer_norm(X, layer.gamma_3, layer.beta_3)
        X = X + mha(Y, Y, layer, np.tri(len(x)) > 0)
        X = X + mha(layer_norm(X, layer.gamma_4, layer.beta_4), Z, layer.W_ed, True)
        X = X + mlp(layer_norm(X, layer.gamma_5, layer.beta_5), layer)
    return unembedding(X, theta)


TRANSFORMER = {
    "attention": attention, "mha": mha, "layer_norm": layer_norm, "activation": relu, "mlp": mlp,
    "embedding": scaled_embedding, "unembedding": unembedding, "EDTransformer": EDTransformer,
}  # fmt: skip


# T5


def rms_norm(X, gamma):
    return X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6) * gamma


def buckets(ell, both):
    """T5's: 16 of the 32 for later tokens if attention looks both ways; from 8, or 16, tokens they widen, up to 128."""
    distance = np.arange(ell)[None] - np.arange(ell)[:, None]
    n = 16 if both else 32
    far, later = (np.abs(distance), distance > 0) if both else (np.maximum(-distance, 0), np.zeros_like(distance))
    wide = n // 2 + np.floor(np.log(np.maximum(far, 1) / (n // 2)) / np.log(128 / (n // 2)) * (n - n // 2))
    return (np.where(far < n // 2, far, np.minimum(wide, n - 1)) + n * later).astype(int)


def biased_mha(X, Z, weights, mask):
    Q, K, V = X @ weights.W_q.T, Z @ weights.W_k.T, Z @ weights.W_v.T
    Q, K, V = (np.stack(np.split(Y, weights.H, -1)) for Y in (Q, K, V))
    mask = np.broadcast_to(mask, (len(X), len(Z)))
    bias = weights.B[:, buckets(len(X), mask[0, -1])] if hasattr(weights, "B") else 0
    return np.concatenate(list(softmax(np.where(mask, Q @ K.swapaxes(1, 2) + bias, -np.inf)) @ V), -1) @ weights.W_o.T


def looked_up(tokens, weights):
    return weights.W_e[tokens]


def scaled_unembedding(X, weights):
    return X / np.sqrt(X.shape[-1]) @ weights.W_u.T


def PreEDTransformer(z, x, theta):
    Z, X = theta.W_e[z], theta.W_e[x]
    for layer in theta.encoder:
        Y = rms_norm(Z, layer.gamma_1)
        Z = Z + biased_mha(Y, Y, layer, True)
        Z = Z + mlp(rms_norm(Z, layer.gamma_2), layer)
    Z = rms_norm(Z, theta.gamma_enc)
    for layer in theta.decoder:
        Y = rms_norm(X, layer.gamma_3)
        X = X + biased_mha(Y, Y, layer, np.tri(len(x)) > 0)
        X = X + biased_mha(rms_norm(X, layer.gamma_4), Z, layer.W_ed, True)
        X = X + mlp(rms_norm(X, layer.gamma_5), layer)
    return scaled_unembedding(rms_norm(X, theta.gamma_dec), theta)


T5 = {
    "mha": biased_mha, "rms_norm": rms_norm, "activation": relu, "mlp": mlp, "embedding": looked_up,
    "unembedding": scaled_unembedding, "PreEDTransformer": PreEDTransformer,
}  # fmt: skip
