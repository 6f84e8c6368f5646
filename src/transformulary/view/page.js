"use strict";
// The controls around the matrix.  Text of tokens enters the document through textContent only.

const DATA = JSON.parse(document.getElementById("data").textContent);
const { kinds, palettes } = DATA;
const byId = (id) => document.getElementById(id);
const make = (tag, text = "", properties = {}) => Object.assign(document.createElement(tag), { textContent: text }, properties);
const dark = matchMedia("(prefers-color-scheme: dark)");

/** What is shown; positions, layers and heads from 0.  `pinned` beats `query` wherever one query is explained. */
const state = { kind: 0, layer: 0, head: 0, query: undefined, key: undefined, pinned: undefined, scale: DATA.scale };
const asking = () => state.pinned ?? state.query;
let matrix, head, colours;
let first, line, queries, keys, alone, layers, heads, causal; // of the kind of attention that is shown
let thumbnails = [], words = [], asked = []; // the elements of heads, queries and keys, in order

/** The head of the state, read once and kept while it is among the last sixteen. */
const read = (() => {
  const kept = new Map();
  return (number) => {
    const found = kept.get(number) ?? Head.read(byId(`w${number}`).textContent, keys.length, causal);
    kept.delete(number);
    kept.set(number, found);
    if (kept.size > 16) kept.delete(kept.keys().next().value);
    return found;
  };
})();

// ---- changes of state ------------------------------------------------------------------------------------------

async function choose(change) {
  const wrap = (value, size) => (value + size) % size;
  Object.assign(state, change);
  state.layer = wrap(state.layer, layers.length);
  state.head = wrap(state.head, heads.length);
  const chosen = () => first + state.layer * heads.length + state.head, number = chosen(), found = await read(number);
  if (number !== chosen()) return; // another head was chosen meanwhile
  head = found;
  byId("layer").value = state.layer;
  byId("head").value = state.head;
  byId("path").textContent = `${line}[l=${layers[state.layer]}]/5.2[h=${heads[state.head]}]/4.6:softmax`;
  select(byId("heads"), thumbnails[number - first].canvas);
  matrix.show(head, colours);
  explain();
  tell();
  remember();
}

function recolour() {
  colours = new Colours(palettes[dark.matches ? "dark" : "light"], state.scale);
  byId("scale").value = state.scale;
  drawLegend();
  thumbnails.forEach(drawThumbnail);
}

/** Point at a cell, or at nothing. */
function point({ query, key }) {
  const before = asking();
  Object.assign(state, { query: query ?? state.query, key: query === undefined ? undefined : key });
  matrix.mark({ query, key, pinned: state.pinned });
  if (asking() !== before) explain();
  tell();
}

function pin(query) {
  state.pinned = query;
  if (query !== undefined) scrollWithin(byId("tokens"), words[query]);
  matrix.mark({ ...matrix.marked, pinned: query });
  explain();
  remember();
}

/** Show another kind of attention, from its first head on. */
async function change(kind) {
  Object.assign(state, { kind, layer: 0, head: 0, query: undefined, key: undefined, pinned: undefined });
  await enter();
  show();
}

/** The kind of the state, which may have other tokens, layers and heads. */
async function enter() {
  ({ first, line, queries, keys, alone, layers, heads, causal } = kinds[state.kind]);
  state.query ??= queries.length - 1;
  build();
  buildHeads();
  recolour();
  matrix.resize();
  await choose({});
}

/** The address leads back here: #layer=2&head=3&query=5&key=2&scale=log, all from 1. */
function remember() {
  const at = new URLSearchParams(kinds.length > 1 ? { kind: kinds[state.kind].name } : {});
  at.set("layer", layers[state.layer]);
  at.set("head", heads[state.head]);
  if (state.pinned !== undefined) at.set("query", state.pinned + 1);
  if (state.pinned !== undefined && state.key !== undefined) at.set("key", state.key + 1);
  at.set("scale", state.scale);
  try {
    history.replaceState(null, "", `#${at}`);
  } catch {} // a frame without an address of its own has nothing to remember
}

/** What the address asks for; anything that is not there is left as it is. */
function recall() {
  const at = new URLSearchParams(location.hash.slice(1)), number = (name) => Number(at.get(name));
  const position = (name, tokens) => (number(name) >= 1 && number(name) <= tokens.length ? Math.floor(number(name)) - 1 : undefined);
  const known = (name, names) => Math.max(0, names.indexOf(number(name)));
  const kind = Math.max(0, kinds.findIndex(({ name }) => name === at.get("kind"))), { queries, keys, layers, heads } = kinds[kind];
  const pinned = position("query", queries);
  Object.assign(state, { kind, layer: known("layer", layers), head: known("head", heads), pinned });
  Object.assign(state, { query: pinned, key: pinned === undefined ? undefined : position("key", keys) });
  if (at.get("scale") in SCALES) state.scale = at.get("scale");
}

// ---- what is drawn ---------------------------------------------------------------------------------------------

function select(list, chosen) {
  list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
  chosen.setAttribute("aria-selected", "true");
  list.setAttribute("aria-activedescendant", chosen.id);
}

/** The query that asks: its strongest keys as a list, and all of them as shades of the prompt. */
function explain() {
  const query = asking(), row = head.row(query);
  const order = Array.from(row.keys()).filter((key) => row[key]).sort((a, b) => row[b] - row[a] || a - b);
  const top = order.slice(0, 10), share = top.reduce((sum, key) => sum + valueOf(row[key]), 0);
  const what = state.pinned === undefined ? "asks" : "asks (pinned)";
  byId("asks").replaceChildren(`${query + 1} `, make("bdi", queries[query], { className: "token" }), make("small", what));
  byId("top").replaceChildren(...top.map((key) => topKey(key, row[key])));
  byId("rest").textContent = order.length ? `${top.length} of ${row.length} keys hold ${(100 * Math.min(1, share)).toFixed(1)} % of the weight.` : "This query may attend to nothing.";
  asked.forEach((word, key) => (word.style = colours.style(row[key])));
  select(byId("tokens"), words[query]);
}

/** Scroll a list to an element of it, and nothing around the list. */
function scrollWithin(list, element) {
  const outer = list.getBoundingClientRect(), inner = element.getBoundingClientRect();
  list.scrollTop += Math.min(0, inner.top - outer.top) + Math.max(0, inner.bottom - outer.bottom);
}

function topKey(key, code) {
  const item = make("li");
  item.style.setProperty("--share", `${100 * valueOf(code)}%`);
  item.style.setProperty("--tint", colours.css(dark.matches ? 150 : 120));
  item.append(make("small", key + 1), make("bdi", keys[key], { className: "token" }), make("span", textOf(code)));
  return item;
}

/** The weight pointed at, for eyes and for screen readers. */
function tell() {
  const tip = byId("tip"), { query, key } = state;
  tip.hidden = key === undefined;
  if (tip.hidden) return;
  const code = head.at(query, key), later = causal && key > query;
  const weight = textOf(code) + (later ? " (a later token: masked)" : "");
  byId("reading").textContent = `Query ${query + 1} ${queries[query]}, key ${key + 1} ${keys[key]}: weight ${weight}`;
  const named = (name, t, tokens) => {
    const div = make("div", `${name} ${t + 1} `);
    div.append(make("bdi", tokens[t], { className: "token" }));
    return div;
  };
  tip.replaceChildren(make("b", textOf(code)), later ? " masked: a later token" : "", named("query", query, queries), named("key", key, keys));
  moveTip();
}

/** Beside its cell, inside the window. */
function moveTip() {
  const tip = byId("tip"), corner = matrix.canvas.getBoundingClientRect();
  if (tip.hidden) return;
  const { x, y } = matrix.place(state.query, state.key), gap = matrix.cell + 12;
  const right = corner.left + x + gap, low = corner.top + y + gap, { offsetWidth: w, offsetHeight: h } = tip;
  tip.style.left = `${Math.max(8, right + w < innerWidth - 8 ? right : corner.left + x - w - 12)}px`;
  tip.style.top = `${Math.max(8, low + h < innerHeight - 8 ? low : corner.top + y - h - 12)}px`;
}

function drawLegend() {
  const { share, ticks } = SCALES[state.scale], legend = byId("legend"), bar = make("i");
  bar.style.background = `linear-gradient(90deg, ${Array.from({ length: 17 }, (_, i) => colours.css(Math.min(255, 16 * i)))})`;
  legend.replaceChildren(bar, ...ticks.map((w, i) => {
    const tick = make("span", (i === 0 && w > 0 ? "≤ " : "") + w);
    tick.style.left = `${100 * share(w)}%`;
    return tick;
  }));
  legend.setAttribute("aria-label", `Colours from weight ${ticks[0]} to weight 1`);
}

function drawThumbnail({ canvas, bytes }) {
  const pen = canvas.getContext("2d"), picture = pen.createImageData(canvas.width, canvas.height);
  new Uint32Array(picture.data.buffer).set(Uint32Array.from(bytes, (byte) => colours.table[byte << 8]));
  pen.putImageData(picture, 0, 0);
}

// ---- building and listening ------------------------------------------------------------------------------------

function build() {
  matrix.between(queries, keys);
  byId("matrix").setAttribute("aria-label", `Weights of ${queries.length} queries and ${keys.length} keys`);
  byId("kind").replaceChildren(...kinds.map(({ name }, i) => new Option(name, i, false, i === state.kind)));
  byId("kind").parentElement.hidden = kinds.length === 1;
  byId("layer").replaceChildren(...layers.map((l, i) => new Option(l, i)));
  byId("head").replaceChildren(...heads.map((h, i) => new Option(h, i)));
  words = queries.map((token, t) => option(make("bdi", token), `t${t}`, `${t + 1} ${token}`));
  asked = alone ? words : keys.map((token) => make("bdi", token));
  const broken = (words) => words.flatMap((word) => (word.textContent.includes("↵") ? [word, make("br")] : [word]));
  byId("tokens").replaceChildren(...broken(words));
  byId("context").replaceChildren(...(alone ? [] : broken(asked)));
  byId("context").hidden = alone;
}

function option(element, id, label) {
  element.id = id;
  for (const [name, value] of [["role", "option"], ["aria-selected", "false"], ["aria-label", label]]) element.setAttribute(name, value);
  return element;
}

function buildHeads() {
  const { bytes, sides } = kinds[state.kind], [height, width] = sides, grid = byId("heads");
  grid.replaceChildren();
  thumbnails = [];
  grid.style.gridTemplateColumns = `repeat(${heads.length}, minmax(14px, ${layers.length * heads.length > 1 ? "5rem" : "8rem"}))`;
  layers.forEach((l, i) => heads.forEach((h, j) => {
    const number = i * heads.length + j, canvas = make("canvas", "", { width, height, title: `layer ${l}, head ${h}` });
    grid.append(option(canvas, `h${number}`, `layer ${l}, head ${h}`));
    thumbnails.push({ canvas, bytes: bytes.subarray(number * width * height, (number + 1) * width * height) });
  }));
}

const clamp = (t, tokens) => Math.min(Math.max(t, 0), tokens.length - 1);

function keyInMatrix(event) {
  const { query } = state, key = state.key ?? 0, shift = event.shiftKey, has = state.key !== undefined;
  const go = (q, k) => {
    const at = { query: clamp(q, queries), key: clamp(k, keys) };
    matrix.reveal(at.query, at.key);
    point(at);
  };
  const acts = {
    ArrowLeft: () => (shift ? choose({ head: state.head - 1 }) : go(query, has ? key - 1 : 0)),
    ArrowRight: () => (shift ? choose({ head: state.head + 1 }) : go(query, has ? key + 1 : 0)),
    ArrowUp: () => (shift ? choose({ layer: state.layer - 1 }) : go(query - 1, key)),
    ArrowDown: () => (shift ? choose({ layer: state.layer + 1 }) : go(query + 1, key)),
    Home: () => go(query, 0),
    End: () => go(query, head.keys(query) - 1),
    Enter: () => pin(query),
    Escape: () => pin(undefined),
    "+": () => matrix.magnify(2, query, key),
    "-": () => matrix.magnify(0.5, query, key),
    0: () => matrix.magnify(0),
  };
  if (!(event.key in acts) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  acts[event.key]();
}

/** Arrow keys in a list of options: how far each moves. */
function listKeys(element, steps, move) {
  element.tabIndex = 0;
  element.addEventListener("keydown", (event) => {
    if (!(event.key in steps)) return;
    event.preventDefault();
    move(steps[event.key]);
  });
}

function listen() {
  const { canvas } = matrix, number = (element) => Number(element.id.slice(1));
  canvas.addEventListener("pointermove", (event) => point(matrix.under(event.clientX, event.clientY)));
  canvas.addEventListener("pointerdown", (event) => point(matrix.under(event.clientX, event.clientY)));
  canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point({}));
  canvas.addEventListener("click", (event) => {
    const { query } = matrix.under(event.clientX, event.clientY);
    if (query !== undefined) pin(query === state.pinned ? undefined : query);
  });
  byId("matrix").addEventListener("keydown", keyInMatrix);
  addEventListener("scroll", moveTip, { capture: true, passive: true });
  for (const name of ["layer", "head"]) byId(name).addEventListener("change", (event) => choose({ [name]: Number(event.target.value) }));
  byId("kind").addEventListener("change", (event) => change(Number(event.target.value)));
  byId("scale").addEventListener("change", (event) => ((state.scale = event.target.value), recolour(), choose({})));
  document.querySelectorAll("[data-step]").forEach((button) => {
    const [name, step] = button.dataset.step.split(" ");
    button.addEventListener("click", () => choose({ [name]: state[name] + Number(step) }));
  });
  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => matrix.magnify(Number(button.dataset.zoom), asking(), state.key ?? clamp(asking(), keys))));
  byId("tokens").addEventListener("click", ({ target }) => target.id.startsWith("t") && target.role === "option" && pin(number(target) === state.pinned ? undefined : number(target)));
  listKeys(byId("tokens"), { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }, (step) => pin(clamp(asking() + step, queries)));
  const row = () => heads.length, steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  byId("heads").addEventListener("click", ({ target }) => target.role === "option" && choose({ layer: Math.floor(number(target) / row()), head: number(target) % row() }));
  listKeys(byId("heads"), steps, ([down, right]) => choose({ layer: state.layer + down, head: state.head + right }));
  new ResizeObserver(() => (matrix.resize(), moveTip())).observe(byId("figure"));
  dark.addEventListener("change", () => (recolour(), choose({})));
  addEventListener("hashchange", () => (recall(), enter().then(show)));
}

/** Bring what the address names into view. */
function show() {
  const { pinned, key } = state;
  matrix.mark({ query: pinned, key, pinned });
  if (pinned !== undefined) matrix.reveal(pinned, key ?? 0);
  scrollWithin(byId("tokens"), words[asking()]);
  tell();
}

async function start() {
  document.querySelector("main").hidden = false;
  matrix = new Matrix(byId("matrix"));
  for (const kind of kinds) kind.bytes = await bytesOf(kind.thumbnails);
  recall();
  await enter();
  listen();
  show();
  document.documentElement.dataset.ready = "";
}

addEventListener("DOMContentLoaded", () => start().catch((error) => {
  document.querySelector("main").replaceWith(make("p", `This browser cannot draw the page: ${error.message} (needs DecompressionStream: Chrome 80, Safari 16.4, Firefox 113 or newer).`));
  throw error;
}));
