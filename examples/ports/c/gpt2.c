/* GPT-2 in C: Algorithm 10 of "Formal Algorithms for Transformers" (arXiv:2207.09238), line by line, with what it
 * calls; and Algorithm 14 with given uniform numbers. Checked against golden vectors:
 *
 *     transformulary vectors write VECTORS
 *     cc -O2 -o gpt2 gpt2.c vectors.c -lm && ./gpt2 VECTORS
 *
 * The comment behind a statement is its line in the paper. `at` is the path of the line that called.
 */
#include "vectors.h"

#include <stdio.h>
#include <string.h>
#include <tgmath.h>

/* Matrices. */

static Matrix matrix(int rows, int columns) {
    return (Matrix){rows, columns, allocate((size_t)rows * (size_t)columns * sizeof(real))};
}

static real *entry(Matrix A, int i, int j) { return &A.at[i * A.columns + j]; }

static Matrix scalar(real x) {
    Matrix A = matrix(1, 1);
    *A.at = x;
    return A;
}

static Matrix column(Matrix A, int t) {
    Matrix e = matrix(A.rows, 1);
    for (int i = 0; i < A.rows; i++) e.at[i] = *entry(A, i, t);
    return e;
}

static void set_column(Matrix A, int t, Matrix e) {
    for (int i = 0; i < A.rows; i++) *entry(A, i, t) = e.at[i];
}

static Matrix transposed(Matrix A) {
    Matrix T = matrix(A.columns, A.rows);
    for (int i = 0; i < A.rows; i++)
        for (int j = 0; j < A.columns; j++) *entry(T, j, i) = *entry(A, i, j);
    return T;
}

static Matrix product(Matrix A, Matrix B) {
    Matrix C = matrix(A.rows, B.columns);
    for (int i = 0; i < A.rows; i++)
        for (int k = 0; k < A.columns; k++)
            for (int j = 0; j < B.columns; j++) *entry(C, i, j) += *entry(A, i, k) * *entry(B, k, j);
    return C;
}

static Matrix sum(Matrix A, Matrix B) { /* a vector B is added to every column */
    Matrix C = matrix(A.rows, A.columns);
    for (int i = 0; i < A.rows; i++)
        for (int j = 0; j < A.columns; j++) *entry(C, i, j) = *entry(A, i, j) + *entry(B, i, B.columns == 1 ? 0 : j);
    return C;
}

static Matrix softmax(Matrix A) { /* of every column */
    Matrix P = matrix(A.rows, A.columns);
    for (int j = 0; j < A.columns; j++) {
        real largest = -INFINITY, total = 0;
        for (int i = 0; i < A.rows; i++) largest = fmax(largest, *entry(A, i, j));
        for (int i = 0; i < A.rows; i++) total += *entry(P, i, j) = exp(*entry(A, i, j) - largest);
        for (int i = 0; i < A.rows; i++) *entry(P, i, j) /= total;
    }
    return P;
}

static real GELU(real x) { return x * (1 + erf(x / sqrt((real)2))) / 2; }

static real GELU_tanh(real x) {
    return x * (1 + tanh((real)0.7978845608028654 * (x + (real)0.044715 * x * x * x))) / 2; /* sqrt(2 / pi) */
}

/* The algorithms. */

static Matrix layer_norm(Case *c, const char *at, Matrix e, Matrix gamma, Matrix beta) { /* Algorithm 6 */
    real m = 0, v = 0, eps = (real)number(c, "eps");
    Matrix e_hat = matrix(e.rows, 1);
    for (int i = 0; i < e.rows; i++) m += e.at[i] / e.rows;                                                 // 1
    check(c, scalar(m), "%s6.1", at);
    for (int i = 0; i < e.rows; i++) v += (e.at[i] - m) * (e.at[i] - m) / e.rows;                           // 2
    check(c, scalar(v), "%s6.2", at);
    for (int i = 0; i < e.rows; i++) e_hat.at[i] = (e.at[i] - m) / sqrt(v + eps) * gamma.at[i] + beta.at[i]; // 3
    return check(c, e_hat, "%s6.3", at);
}

/* Algorithm 6 for every column. `line` is a path without its last bracket, "10.5[l=1," or "10.10[". */
static Matrix layer_norms(Case *c, const char *line, Matrix X, Matrix gamma, Matrix beta) {
    Matrix Y = matrix(X.rows, X.columns);
    for (int t = 0; t < X.columns; t++)
        set_column(Y, t, layer_norm(c, format("%st=%d]/", line, t + 1), column(X, t), gamma, beta));
    return Y;
}

/* Algorithm 4, its mask [[t_z <= t_x]]. `W` and `h` stand around the names of the parameters: "W[1]." and "[2]". */
static Matrix attention(Case *c, const char *at, Matrix X, Matrix Z, const char *W, const char *h) {
    Matrix W_q = tensor(c, "%sW_q%s", W, h), b_q = tensor(c, "%sb_q%s", W, h);
    Matrix W_k = tensor(c, "%sW_k%s", W, h), b_k = tensor(c, "%sb_k%s", W, h);
    Matrix W_v = tensor(c, "%sW_v%s", W, h), b_v = tensor(c, "%sb_v%s", W, h);
    Matrix Q = check(c, sum(product(W_q, X), b_q), "%s4.1", at);                                            // 1
    Matrix K = check(c, sum(product(W_k, Z), b_k), "%s4.2", at);                                            // 2
    Matrix V = check(c, sum(product(W_v, Z), b_v), "%s4.3", at);                                            // 3
    Matrix S = check(c, product(transposed(K), Q), "%s4.4", at);                                            // 4
    for (int t_z = 0; t_z < Z.columns; t_z++)
        for (int t_x = 0; t_x < X.columns; t_x++)
            if (t_z > t_x) *entry(S, t_z, t_x) = -INFINITY;                                                 // 5
    check(c, S, "%s4.5", at);
    for (int k = 0; k < S.rows * S.columns; k++) S.at[k] /= sqrt((real)K.rows);
    return check(c, product(V, check(c, softmax(S), "%s4.6:softmax", at)), "%s4.6", at);                    // 6
}

static Matrix mh_attention(Case *c, const char *at, Matrix X, Matrix Z, const char *W, int H) { /* Algorithm 5 */
    Matrix W_o = tensor(c, "%sW_o", W), b_o = tensor(c, "%sb_o", W), Y = matrix(W_o.columns, X.columns);
    for (int h = 1; h <= H; h++) {                                                                          // 1
        Matrix Y_h = attention(c, format("%s5.2[h=%d]/", at, h), X, Z, W, format("[%d]", h));               // 2
        check(c, Y_h, "%s5.2[h=%d]", at, h);
        memcpy(entry(Y, (h - 1) * Y_h.rows, 0), Y_h.at, (size_t)(Y_h.rows * Y_h.columns) * sizeof(real));   // 3
    }
    check(c, Y, "%s5.3", at);
    return check(c, sum(product(W_o, Y), b_o), "%s5.4", at);                                                // 4
}

static Matrix dtransformer(Case *c, const char *at, const int *x, int ell) { /* Algorithm 10 */
    Matrix W_e = tensor(c, "W_e"), W_p = tensor(c, "W_p"), X = matrix(W_e.rows, ell), X_tilde;
    int tanh_form = says(c, "activation", "gelu_tanh");
    check(c, scalar((real)ell), "%s10.1", at);                                                              // 1
    for (int t = 0; t < ell; t++) set_column(X, t, sum(column(W_e, x[t]), column(W_p, t)));                 // 2
    check(c, X, "%s10.3", at);                                                                              // 3
    for (int l = 1; l <= (int)number(c, "L"); l++) {                                                        // 4
        Matrix gamma_1 = tensor(c, "gamma_1[%d]", l), beta_1 = tensor(c, "beta_1[%d]", l);
        Matrix gamma_2 = tensor(c, "gamma_2[%d]", l), beta_2 = tensor(c, "beta_2[%d]", l);
        Matrix W_mlp1 = tensor(c, "W_mlp1[%d]", l), b_mlp1 = tensor(c, "b_mlp1[%d]", l);
        Matrix W_mlp2 = tensor(c, "W_mlp2[%d]", l), b_mlp2 = tensor(c, "b_mlp2[%d]", l);
        const char *line_6 = format("%s10.6[l=%d]/", at, l), *W = format("W[%d].", l);
        X_tilde = layer_norms(c, format("%s10.5[l=%d,", at, l), X, gamma_1, beta_1);                        // 5
        check(c, X_tilde, "%s10.5[l=%d]", at, l);
        X = sum(X, mh_attention(c, line_6, X_tilde, X_tilde, W, (int)number(c, "H")));                      // 6
        check(c, X, "%s10.6[l=%d]", at, l);
        X_tilde = layer_norms(c, format("%s10.7[l=%d,", at, l), X, gamma_2, beta_2);                        // 7
        check(c, X_tilde, "%s10.7[l=%d]", at, l);
        Matrix hidden = sum(product(W_mlp1, X_tilde), b_mlp1);
        for (int k = 0; k < hidden.rows * ell; k++) hidden.at[k] = (tanh_form ? GELU_tanh : GELU)(hidden.at[k]);
        check(c, hidden, tanh_form ? "%s10.8[l=%d]:GELU_tanh" : "%s10.8[l=%d]:GELU", at, l);
        X = sum(X, sum(product(W_mlp2, hidden), b_mlp2));                                                   // 8
        check(c, X, "%s10.8[l=%d]", at, l);
    }
    X = layer_norms(c, format("%s10.10[", at), X, tensor(c, "gamma"), tensor(c, "beta"));                   // 10
    check(c, X, "%s10.10", at);
    Matrix W_u = says(c, "tied", "true") ? transposed(W_e) : tensor(c, "W_u");
    return check(c, softmax(check(c, product(W_u, X), "%s10.11:logits", at)), "%s10.11", at);                  // 11
}

/* q proportional to p^(1/tau); its limit for tau = 0 is 1 for the most probable token. */
static Matrix proportional(Matrix p, real tau) {
    Matrix q = matrix(p.rows, 1);
    int best = 0;
    for (int y = 1; y < p.rows; y++) best = p.at[y] > p.at[best] ? y : best;
    for (int y = 0; y < p.rows; y++) q.at[y] = tau > 0 ? log(p.at[y] / p.at[best]) / tau : y == best ? 0 : -INFINITY;
    return softmax(q);
}

static int sample(Matrix q, real u) { /* the first token y with q[1] + ... + q[y] > u */
    int y = 0;
    for (real total = q.at[0]; total <= u && y + 1 < q.rows; total += q.at[y]) y++;
    return y;
}

/* Algorithm 14. x has room for ell_gen more tokens. */
static void dinference(Case *c, int *x, int ell, int ell_gen, real tau, Matrix u) {
    Matrix generated = matrix(ell_gen, 1);
    check(c, scalar((real)ell), "14.1");                                                                    // 1
    for (int i = 0; i < ell_gen; i++) {                                                                     // 2
        Matrix P = check(c, dtransformer(c, format("14.3[i=%d]/", i + 1), x, ell + i), "14.3[i=%d]", i + 1); // 3
        Matrix p = check(c, column(P, ell + i - 1), "14.4[i=%d]", i + 1);                                   // 4
        Matrix q = check(c, proportional(p, tau), "14.5[i=%d]:proportional", i + 1);
        int y = sample(q, u.at[i]);                                                                         // 5
        check(c, scalar((real)y), "14.5[i=%d]", i + 1);
        x[ell + i] = y;                                                                                     // 6
        generated.at[i] = (real)y;
    }
    check(c, generated, "14.8");                                                                            // 8
}

static int run(const char *folder, const char *name) {
    Case c = open_case(folder, name);
    if (!strncmp(name, "6-", 2)) layer_norm(&c, "", tensor(&c, "e"), tensor(&c, "gamma"), tensor(&c, "beta"));
    else if (!strncmp(name, "4-", 2)) attention(&c, "", tensor(&c, "X"), tensor(&c, "X"), "", "");
    else if (!strncmp(name, "5-", 2)) mh_attention(&c, "", tensor(&c, "X"), tensor(&c, "X"), "", 3);
    else {
        int x[100];
        Matrix given = tensor(&c, "x");
        for (int t = 0; t < given.rows; t++) x[t] = (int)given.at[t];
        if (!strncmp(name, "10-", 3)) dtransformer(&c, "", x, given.rows);
        else dinference(&c, x, given.rows, (int)number(&c, "ell_gen"), (real)number(&c, "tau"), tensor(&c, "u"));
    }
    int differs = report(&c);
    free_all();
    return differs;
}

int main(int argc, char **argv) {
    const char *cases[] = { /* in the order in which a port is best written */
        "6-paper", "6-gpt2", "4-causal", "5-paper", "10-paper", "10-gpt2", "10-wide",
        "14-gpt2", "14-cold", "14-greedy"};
    int differs = 0;
    if (argc != 2) return fprintf(stderr, "usage: %s VECTORS\n", argv[0]), 2;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) differs |= run(argv[1], cases[k]);
    return differs;
}
