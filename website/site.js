// The search, and what a symbol means where the pointer, a finger or the keyboard's focus is.
"use strict";

const script = document.currentScript;
const root = script.getAttribute("src").replace("site.js", "");

// ---- search -------------------------------------------------------------------------------------------------------

const field = document.getElementById("search"), list = document.getElementById("found");
let entries = null, chosen = -1;

function searchIndex(rows) {  // called by the file of the index, which is loaded when it is first needed
  entries = rows.map(([address, title, heading, text, known]) => ({
    address, title, heading, text, known, lower: text.toLowerCase(), name: `${title} ${heading}`.toLowerCase(),
  }));
  look();
}

function need() {
  if (document.getElementById("index")) return;
  const file = document.createElement("script");
  Object.assign(file, { id: "index", src: script.dataset.index });
  document.head.append(file);
}

// How well an entry fits: how many of the words it has, and how well.  In what it is known as a word counts more than in
// its name, there more than in the text, and at a word's beginning more.
function score(entry, words) {
  let had = 0, sum = 0;
  for (const word of words) {
    const begins = new RegExp(`(^|[^\\p{L}\\p{N}])${word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}`, "u");
    const isKnown = begins.test(entry.known), inName = begins.test(entry.name), inText = begins.test(entry.lower);
    if (!isKnown && !inName && !inText && !entry.lower.includes(word)) continue;
    had += 1;
    sum += (isKnown ? 40 : 0) + (inName ? 20 : 0) + (inText ? 4 : 1) + Math.min(3, entry.lower.split(word).length - 1);
  }
  sum += (entry.address.startsWith("algorithms/") ? 2 : 0) - (entry.address.startsWith("decisions/") ? 5 : 0);
  return { entry, had, sum };
}

function look() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!entries || !words.length) return show([], words);
  const scores = entries.map((entry) => score(entry, words)), most = Math.max(1, ...scores.map(({ had }) => had));
  const ranked = scores.filter(({ had }) => had === most).sort((a, b) => b.sum - a.sum);
  show(ranked.slice(0, 12).map(({ entry }) => entry), words);
}

function show(found, words) {
  list.replaceChildren(...found.map((entry, k) => item(entry, words, k)));
  if (entries && words.length && !found.length) {
    const nothing = document.createElement("p");
    nothing.textContent = "Nothing found.";
    list.append(nothing);
  }
  list.hidden = !list.childElementCount;
  field.setAttribute("aria-expanded", String(!list.hidden));
  choose(found.length ? 0 : -1);
}

function item(entry, words, k) {
  const row = document.createElement("li"), link = document.createElement("a");
  const name = document.createElement("b"), text = document.createElement("small");
  Object.assign(row, { id: `found-${k}`, role: "option" });
  link.href = root + entry.address;
  link.tabIndex = -1;
  name.textContent = entry.heading ? `${entry.title} › ${entry.heading}` : entry.title;
  const at = Math.max(0, entry.lower.indexOf(words[0]) - 40);
  emphasise(text, (at ? "…" : "") + entry.text.slice(at, at + 160), words);
  link.append(name, text);
  row.append(link);
  return row;
}

function emphasise(element, text, words) {
  const pattern = words.map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("|");
  for (const [k, part] of text.split(new RegExp(`(${pattern})`, "iu")).entries()) {
    const piece = k % 2 ? document.createElement("mark") : document.createTextNode(part);
    if (k % 2) piece.textContent = part;
    element.append(piece);
  }
}

function choose(k) {
  const rows = list.querySelectorAll("li");
  chosen = rows.length ? (k + rows.length) % rows.length : -1;
  rows.forEach((row, n) => row.setAttribute("aria-selected", String(n === chosen)));
  if (chosen < 0) return field.removeAttribute("aria-activedescendant");
  field.setAttribute("aria-activedescendant", rows[chosen].id);
  rows[chosen].scrollIntoView({ block: "nearest" });
}

function close() {
  list.hidden = true;
  field.setAttribute("aria-expanded", "false");
}

field.addEventListener("focus", () => { need(); look(); });
field.addEventListener("input", () => { need(); look(); });
field.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
  } else if (event.key === "Enter" && chosen >= 0) {
    list.querySelectorAll("a")[chosen].click();
    close();
  } else if (event.key === "Escape") {
    close();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(input|textarea|select)$/i.test(event.target.tagName)) return;
  event.preventDefault();
  field.focus();
});
document.addEventListener("pointerdown", (event) => { if (!event.target.closest("search")) close(); });

// ---- what is open and where the list of pages stands -------------------------------------------------------------

const narrow = matchMedia("(max-width: 56rem)").matches, here = document.querySelector("nav [aria-current]");
if (narrow) for (const legend of document.querySelectorAll("details.symbols")) legend.open = false;
else if (here) here.closest("nav").scrollTop = here.offsetTop - innerHeight / 2;

// ---- symbols ------------------------------------------------------------------------------------------------------

const tip = document.createElement("div");
Object.assign(tip, { id: "tip", role: "tooltip", hidden: true });
document.body.append(tip);
let shown = null;

// What is said of a symbol: in its algorithm, if it means something of its own there.
function said(element) {
  const name = element.dataset.symbol, at = element.closest("[data-algorithm]")?.dataset.algorithm;
  return document.getElementById(`symbol-${at}-${name}`) ?? document.getElementById(`symbol-${name}`);
}

function explain(element) {
  if (element === shown) return;
  shown?.classList.remove("shown");
  shown = element && said(element) ? element : null;
  tip.hidden = !shown;
  if (!shown) return;
  shown.classList.add("shown");
  tip.replaceChildren(...said(shown).cloneNode(true).childNodes);
  const box = shown.getBoundingClientRect(), left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 12);
  const above = box.bottom + tip.offsetHeight + 10 > innerHeight;
  tip.style.left = `${Math.max(12, left) + scrollX}px`;
  tip.style.top = `${(above ? box.top - tip.offsetHeight - 6 : box.bottom + 6) + scrollY}px`;
}

const symbolAt = (node) => (node.closest?.("#main") ? node.closest("[data-symbol]") : null);
document.addEventListener("pointerover", (event) => {
  if (event.pointerType === "mouse" && !event.target.closest?.("#tip")) explain(symbolAt(event.target));
});
document.addEventListener("click", (event) => { if (!event.target.closest?.("#tip")) explain(symbolAt(event.target)); });
document.addEventListener("focusin", (event) => explain(symbolAt(event.target)));
document.addEventListener("keydown", (event) => { if (event.key === "Escape") explain(null); });

// Of the symbols of one box, one is reached by the tab key, the others from there by the arrows.
for (const box of document.querySelectorAll("#main .pseudocode")) {
  const symbols = [...box.querySelectorAll("[data-symbol]")];
  symbols.forEach((symbol, k) => { symbol.tabIndex = k ? -1 : 0; });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], k = symbols.indexOf(document.activeElement);
    const next = symbols[k + step];
    if (k < 0 || !next) return;
    event.preventDefault();
    symbols[k].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
