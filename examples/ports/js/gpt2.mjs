// GPT-2 in JavaScript: Algorithm 10 of "Formal Algorithms for Transformers" (arXiv:2207.09238), line by line, with
// what it calls; and Algorithm 14 with given uniform numbers. Checked against golden vectors:
//
//     transformulary vectors write VECTORS
//     node gpt2.mjs VECTORS
//
// The comment behind a statement is its line in the paper. `at` is the path of the line that called.
import { Case, matrix } from './vectors.mjs';

// Matrices.

const scalar = (x) => matrix(1, 1, Float64Array.of(x));
const map = (A, f) => matrix(A.rows, A.columns, A.at.map(f));

/** The matrix whose entry in row i and column j is f(i, j). */
function entries(rows, columns, f) {
  const A = matrix(rows, columns);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) A.at[i * columns + j] = f(i, j);
  return A;
}

const entry = (A, i, j) => A.at[i * A.columns + j];
const column = (A, t) => entries(A.rows, 1, (i) => entry(A, i, t));
const columns = (vectors) => entries(vectors[0].rows, vectors.length, (i, t) => vectors[t].at[i]);
const stacked = (blocks) => {
  const Y = matrix(blocks.length * blocks[0].rows, blocks[0].columns);
  blocks.forEach((block, h) => Y.at.set(block.at, h * block.at.length));
  return Y;
};
const transposed = (A) => entries(A.columns, A.rows, (i, j) => entry(A, j, i));

/** A B. */
const product = (A, B) =>
  entries(A.rows, B.columns, (i, j) => {
    let total = 0;
    for (let k = 0; k < A.columns; k++) total += entry(A, i, k) * entry(B, k, j);
    return total;
  });

/** A + B; a vector B is added to every column. */
const sum = (A, B) => entries(A.rows, A.columns, (i, j) => entry(A, i, j) + entry(B, i, B.columns === 1 ? 0 : j));

/** Of every column. */
const softmax = (A) =>
  columns(Array.from({ length: A.columns }, (_, t) => {
    const a = column(A, t);
    const largest = a.at.reduce((x, y) => Math.max(x, y));
    const e = map(a, (x) => Math.exp(x - largest));
    const total = e.at.reduce((x, y) => x + y);
    return map(e, (x) => x / total);
  }));

/** The error function, by a series of positive terms: nothing cancels. */
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = (2 * x) / Math.sqrt(Math.PI) / Math.exp(x * x);
  let total = 0;
  for (let n = 1; Math.abs(term) > 1e-18; n++) {
    total += term;
    term *= (2 * x * x) / (2 * n + 1);
  }
  return total;
}

const ACTIVATION = {
  gelu: (x) => (x * (1 + erf(x / Math.SQRT2))) / 2,
  gelu_tanh: (x) => (x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))) / 2,
};
const NAME = { gelu: 'GELU', gelu_tanh: 'GELU_tanh' };

// The algorithms.

/** Algorithm 6. */
function layerNorm(c, at, e, gamma, beta) {
  const m = e.at.reduce((total, x) => total + x / e.rows, 0); // 1
  c.check(`${at}6.1`, scalar(m));
  const v = e.at.reduce((total, x) => total + (x - m) ** 2 / e.rows, 0); // 2
  c.check(`${at}6.2`, scalar(v));
  const eHat = map(e, (x, i) => ((x - m) / Math.sqrt(v + c.config.eps)) * gamma.at[i] + beta.at[i]); // 3
  return c.check(`${at}6.3`, eHat);
}

/** Algorithm 6 for every column. `line` is a path without its last bracket, "10.5[l=1," or "10.10[". */
const layerNorms = (c, line, X, gamma, beta) =>
  columns(Array.from({ length: X.columns }, (_, t) => layerNorm(c, `${line}t=${t + 1}]/`, column(X, t), gamma, beta)));

/** Algorithm 4, its mask [[t_z <= t_x]]. `theta(name)` is a parameter of this head. */
function attention(c, at, X, Z, theta) {
  const Q = c.check(`${at}4.1`, sum(product(theta('W_q'), X), theta('b_q'))); // 1
  const K = c.check(`${at}4.2`, sum(product(theta('W_k'), Z), theta('b_k'))); // 2
  const V = c.check(`${at}4.3`, sum(product(theta('W_v'), Z), theta('b_v'))); // 3
  let S = c.check(`${at}4.4`, product(transposed(K), Q)); // 4
  S = entries(Z.columns, X.columns, (tz, tx) => (tz <= tx ? entry(S, tz, tx) : -Infinity)); // 5
  c.check(`${at}4.5`, S);
  const A = c.check(`${at}4.6:softmax`, softmax(map(S, (s) => s / Math.sqrt(K.rows))));
  return c.check(`${at}4.6`, product(V, A)); // 6
}

/** Algorithm 5. `theta(name)` is a parameter of this layer. */
function mhAttention(c, at, X, Z, theta, H) {
  const heads = [];
  for (let h = 1; h <= H; h++) { // 1
    const Yh = attention(c, `${at}5.2[h=${h}]/`, X, Z, (name) => theta(`${name}[${h}]`)); // 2
    heads.push(c.check(`${at}5.2[h=${h}]`, Yh));
  }
  const Y = c.check(`${at}5.3`, stacked(heads)); // 3
  return c.check(`${at}5.4`, sum(product(theta('W_o'), Y), theta('b_o'))); // 4
}

/** Algorithm 10. */
function dTransformer(c, at, x) {
  const { L, H, activation, tied } = c.config;
  const [We, Wp] = [c.tensor('W_e'), c.tensor('W_p')];
  const ell = x.length; // 1
  c.check(`${at}10.1`, scalar(ell));
  const e = x.map((v, t) => sum(column(We, v), column(Wp, t))); // 2
  let X = c.check(`${at}10.3`, columns(e)); // 3
  for (let l = 1; l <= L; l++) { // 4
    const theta = (name) => c.tensor(`${name}[${l}]`);
    let XTilde = layerNorms(c, `${at}10.5[l=${l},`, X, theta('gamma_1'), theta('beta_1')); // 5
    c.check(`${at}10.5[l=${l}]`, XTilde);
    const W = (name) => c.tensor(`W[${l}].${name}`);
    X = sum(X, mhAttention(c, `${at}10.6[l=${l}]/`, XTilde, XTilde, W, H)); // 6
    c.check(`${at}10.6[l=${l}]`, X);
    XTilde = layerNorms(c, `${at}10.7[l=${l},`, X, theta('gamma_2'), theta('beta_2')); // 7
    c.check(`${at}10.7[l=${l}]`, XTilde);
    const hidden = map(sum(product(theta('W_mlp1'), XTilde), theta('b_mlp1')), ACTIVATION[activation]);
    c.check(`${at}10.8[l=${l}]:${NAME[activation]}`, hidden);
    X = sum(X, sum(product(theta('W_mlp2'), hidden), theta('b_mlp2'))); // 8
    c.check(`${at}10.8[l=${l}]`, X);
  }
  X = layerNorms(c, `${at}10.10[`, X, c.tensor('gamma'), c.tensor('beta')); // 10
  c.check(`${at}10.10`, X);
  const Wu = tied ? transposed(We) : c.tensor('W_u');
  const logits = c.check(`${at}10.11:logits`, product(Wu, X));
  return c.check(`${at}10.11`, softmax(logits)); // 11
}

/** q proportional to p^(1/tau); its limit for tau = 0 is 1 for the most probable token. */
function proportional(p, tau) {
  const best = p.at.indexOf(p.at.reduce((x, y) => Math.max(x, y)));
  if (tau === 0) return map(p, (_, y) => (y === best ? 1 : 0));
  return softmax(map(p, (x) => Math.log(x / p.at[best]) / tau));
}

/** The first token y with q[1] + ... + q[y] > u. */
function sample(q, u) {
  let total = 0;
  const y = q.at.findIndex((x) => (total += x) > u);
  return y < 0 ? q.rows - 1 : y;
}

/** Algorithm 14; u: the uniform numbers. */
function dInference(c, prompt, u) {
  const { ell_gen: ellGen, tau } = c.config;
  const ell = prompt.length; // 1
  c.check('14.1', scalar(ell));
  let x = prompt;
  for (let i = 1; i <= ellGen; i++) { // 2
    const P = c.check(`14.3[i=${i}]`, dTransformer(c, `14.3[i=${i}]/`, x)); // 3
    const p = c.check(`14.4[i=${i}]`, column(P, ell + i - 2)); // 4
    const q = c.check(`14.5[i=${i}]:proportional`, proportional(p, tau));
    const y = sample(q, u[i - 1]); // 5
    c.check(`14.5[i=${i}]`, scalar(y));
    x = [...x, y]; // 6
    c.check(`14.6[i=${i}]`, matrix(x.length, 1, Float64Array.from(x)));
  }
  const y = x.slice(ell, ell + ellGen); // 8
  c.check('14.8', matrix(ellGen, 1, Float64Array.from(y)));
  return y;
}

// The cases, in the order in which a port is best written.

const given = (c, name) => [...c.tensor(name).at];
const RUN = {
  '6-paper': (c) => layerNorm(c, '', c.tensor('e'), c.tensor('gamma'), c.tensor('beta')),
  '6-gpt2': (c) => layerNorm(c, '', c.tensor('e'), c.tensor('gamma'), c.tensor('beta')),
  '4-causal': (c) => attention(c, '', c.tensor('X'), c.tensor('X'), (name) => c.tensor(name)),
  '5-paper': (c) => mhAttention(c, '', c.tensor('X'), c.tensor('X'), (name) => c.tensor(name), 3),
  '10-paper': (c) => dTransformer(c, '', given(c, 'x')),
  '10-gpt2': (c) => dTransformer(c, '', given(c, 'x')),
  '10-wide': (c) => dTransformer(c, '', given(c, 'x')),
  '14-gpt2': (c) => dInference(c, given(c, 'x'), given(c, 'u')),
  '14-cold': (c) => dInference(c, given(c, 'x'), given(c, 'u')),
  '14-greedy': (c) => dInference(c, given(c, 'x'), given(c, 'u')),
};

/** Every case of a folder: 0 if all agree, 1 if one differs, 2 with one line if they cannot be read. */
function main([folder, ...rest]) {
  try {
    if (!folder || rest.length) throw new Error('usage: node gpt2.mjs VECTORS');
    const verdicts = Object.entries(RUN).map(([name, run]) => {
      const c = new Case(folder, name);
      run(c);
      return c.report();
    });
    return verdicts.every(Boolean) ? 0 : 1;
  } catch (error) {
    console.error(error.message);
    return 2;
  }
}

process.exitCode = main(process.argv.slice(2));
