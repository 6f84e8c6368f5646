"use strict";
// One head on a canvas that is only as large as what can be seen of it, whatever the number of tokens.

const LABEL = { font: "12px ui-monospace, 'SF Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace", pitch: 16, letters: 14 };
const LARGEST = 44; // side of a cell, in CSS pixels

class Matrix {
  /** `box` scrolls over an extent whose canvas sticks to the corner. */
  constructor(box) {
    this.box = box;
    this.extent = box.firstElementChild;
    this.canvas = this.extent.firstElementChild;
    this.pen = this.canvas.getContext("2d");
    box.addEventListener("scroll", () => requestAnimationFrame(() => this.paint()));
  }

  /** The tokens that label the rows, and those that label the columns. */
  between(queries, keys) {
    const short = (token) => {
      const letters = Array.from(token);
      return letters.length > LABEL.letters ? letters.slice(0, LABEL.letters - 1).join("") + "…" : token;
    };
    Object.assign(this, { rows: queries.map(short), columns: keys.map(short), zoom: 1, marked: {}, head: undefined });
  }

  show(head, colours) {
    Object.assign(this, { head, colours });
    this.paint();
  }

  /** Everything in CSS pixels: `cell` is the side of one weight, `gutter` the room for labels on both axes. */
  resize() {
    this.dpr = window.devicePixelRatio || 1;
    this.pen.font = LABEL.font;
    const rows = this.rows.length, columns = this.columns.length, most = Math.max(rows, columns);
    const room = this.box.clientWidth, width = (text) => this.pen.measureText(text).width;
    this.gutter = Math.ceil(Math.min(Math.max(...this.rows.map(width), ...this.columns.map(width)) + width(`${most}`) + 20, room * 0.34));
    const high = Math.max(300, innerHeight * 0.85), across = (room - this.gutter - 1) / columns;
    const fit = Math.min(across, (high - this.gutter - 1) / rows, LARGEST);
    this.cell = this.snap(fit * this.zoom);
    const wide = this.gutter + columns * this.cell + 1, tall = this.gutter + rows * this.cell + 1;
    this.box.style.height = `${Math.ceil(this.gutter + rows * this.snap(fit)) + 1}px`;
    Object.assign(this.extent.style, { width: `${wide}px`, height: `${tall}px` });
    this.width = Math.min(wide, this.box.clientWidth);
    this.height = Math.min(tall, this.box.clientHeight);
    Object.assign(this.canvas, { width: Math.round(this.width * this.dpr), height: Math.round(this.height * this.dpr) });
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${this.height}px` });
    this.paint();
  }

  /** Cells of several pixels get a whole number of them, so that all look alike. */
  snap(cell) {
    return cell * this.dpr < 4 ? cell : Math.floor(cell * this.dpr) / this.dpr;
  }

  /** Zoom by a factor around a cell; 0 is back to the whole. */
  magnify(factor, query, key) {
    const most = Math.max(this.zoom, (this.zoom * LARGEST) / this.cell);
    this.zoom = factor ? Math.min(Math.max(1, this.zoom * factor), most) : 1;
    this.resize();
    this.box.scrollTop = query * this.cell - (this.height - this.gutter) / 2;
    this.box.scrollLeft = key * this.cell - (this.width - this.gutter) / 2;
  }

  /** Scroll just enough to see a cell. */
  reveal(query, key) {
    const nearest = (at, seen, size) => Math.min(Math.max(seen, (at + 1) * this.cell - size), at * this.cell);
    this.box.scrollTop = nearest(query, this.box.scrollTop, this.height - this.gutter);
    this.box.scrollLeft = nearest(key, this.box.scrollLeft, this.width - this.gutter);
  }

  /** The query and key under a point of the window; one of them alone over a label. */
  under(clientX, clientY) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const token = (at, seen) => Math.floor((at - this.gutter + seen) / this.cell);
    const query = token(clientY - top, this.box.scrollTop), key = token(clientX - left, this.box.scrollLeft);
    const found = {};
    if (clientY - top >= this.gutter && query < this.rows.length) found.query = query;
    if (clientX - left >= this.gutter && key < this.columns.length) found.key = key;
    return found;
  }

  /** The corner of a cell, in CSS pixels from that of the canvas. */
  place(query, key) {
    const { box, gutter, cell } = this;
    return { x: gutter + key * cell - box.scrollLeft, y: gutter + query * cell - box.scrollTop };
  }

  /** Draw the weights that can be seen, and keep the picture under the marks. */
  paint() {
    const edge = Math.round(this.gutter * this.dpr), w = this.canvas.width - edge, h = this.canvas.height - edge;
    if (!this.head || w < 1 || h < 1) return;
    this.picture = this.pen.createImageData(w, h);
    const pixels = new Uint32Array(this.picture.data.buffer);
    const rows = this.tokensAt(h, this.box.scrollTop, this.rows), columns = this.tokensAt(w, this.box.scrollLeft, this.columns);
    if (this.cell * this.dpr > 1) this.enlarge(pixels, rows, columns);
    else this.reduce(pixels, rows, columns);
    this.mark(this.marked);
  }

  /** Pixel i of n shows the tokens from element i to element i + 1, or the one token where both are the same. */
  tokensAt(n, offset, tokens) {
    const step = 1 / (this.cell * this.dpr), from = offset / this.cell + (step < 1 ? step / 2 : 0);
    return Int32Array.from({ length: n + 1 }, (_, i) => Math.min(tokens.length, Math.floor(from + i * step)));
  }

  /** Several tokens to a pixel: the largest weight shows. */
  reduce(pixels, rows, columns) {
    const width = columns.length - 1, codes = new Uint16Array(width);
    for (let y = 0; y + 1 < rows.length; y++) {
      this.head.largest(rows[y], rows[y + 1], columns, codes);
      for (let x = 0; x < width; x++) pixels[y * width + x] = this.colours.table[codes[x]];
    }
  }

  /** Several pixels to a token; the last one stays empty where there is room for a grid. */
  enlarge(pixels, rows, columns) {
    const width = columns.length - 1, grid = this.cell * this.dpr >= 8;
    const drawn = (tokens, i, all) => tokens[i] < all.length && !(grid && tokens[i + 1] !== tokens[i]);
    for (let y = 0; y + 1 < rows.length; y++) {
      if (!drawn(rows, y, this.rows)) continue;
      for (let x = 0; x < width; x++) {
        if (drawn(columns, x, this.columns)) pixels[y * width + x] = this.colours.table[this.head.at(rows[y], columns[x])];
      }
    }
  }

  /** The picture, its labels, an outline of the cell pointed at and one of the pinned query. */
  mark(marked) {
    this.marked = marked;
    if (!this.picture) return;
    const { pen, dpr, gutter } = this, { query, key, pinned } = marked, ink = (name) => this.style.getPropertyValue(name);
    this.style = getComputedStyle(this.box);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.putImageData(this.picture, Math.round(gutter * dpr), Math.round(gutter * dpr));
    pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    pen.save();
    pen.beginPath();
    pen.rect(gutter - 2, gutter - 2, this.width, this.height);
    pen.clip();
    if (pinned !== undefined) this.underline(pinned, ink("--accent"));
    if (query !== undefined && key !== undefined) this.outline(query, key, ink("--ink"));
    pen.restore();
    this.names(ink("--faint"));
    this.axis(this.rows, [query, pinned], this.box.scrollTop, this.height, ink, (at) => pen.translate(0, at), 1);
    this.axis(this.columns, [key], this.box.scrollLeft, this.width, ink, (at) => (pen.translate(at, gutter), pen.rotate(-Math.PI / 2)), 0);
  }

  /** A frame around one cell, large enough to be seen around the smallest. */
  outline(query, key, colour) {
    const { x, y } = this.place(query, key), extra = Math.max(0, 5 - this.cell) / 2;
    Object.assign(this.pen, { strokeStyle: colour, lineWidth: 2 });
    this.pen.strokeRect(x - 1 - extra, y - 1 - extra, this.cell + 1 + 2 * extra, this.cell + 1 + 2 * extra);
  }

  /** Lines above and below a row; none of its weights is covered. */
  underline(query, colour) {
    const { x, y } = this.place(query, 0), width = this.cell < 5 ? 1 : 2;
    this.pen.fillStyle = colour;
    for (const line of [y - width, y + this.cell - (this.cell < 5 ? 0 : 1)]) this.pen.fillRect(x - 2, line, this.columns.length * this.cell + 2, width);
  }

  /** In the corner between the labels. */
  names(colour) {
    const { pen, gutter } = this;
    Object.assign(pen, { font: LABEL.font, textBaseline: "middle", fillStyle: colour, textAlign: "right" });
    if (gutter < 90) return;
    pen.fillText("keys →", gutter - 14, 8);
    pen.textAlign = "left";
    pen.fillText("queries ↓", 2, gutter - 18);
  }

  /** Labels of one axis, thinned to what can be read; the `chosen` ones always, in strong ink. */
  axis(labels, chosen, offset, length, ink, move, isRow) {
    const every = Math.max(1, Math.ceil(LABEL.pitch / this.cell)), strong = chosen.filter((t) => t !== undefined);
    const put = (t, colour) => {
      const middle = this.gutter + (t + 0.5) * this.cell - offset;
      if (middle < this.gutter || middle > length) return;
      this.pen.save();
      move(middle);
      this.label(labels[t], t, colour, isRow);
      this.pen.restore();
    };
    for (let t = 0; t < labels.length; t += every) if (!strong.some((s) => Math.abs(s - t) < every)) put(t, ink("--faint"));
    for (const t of strong) put(t, t === chosen[1] ? ink("--accent") : ink("--ink"));
  }

  /** Position and token on the line y = 0; the token is next to the matrix, the position at the outer end. */
  label(text, t, colour, isRow) {
    const { pen, gutter } = this, inner = isRow ? gutter - 6 : 6, outer = isRow ? 2 : gutter - 2;
    const number = `${t + 1}`, room = gutter - pen.measureText(number).width - 14;
    Object.assign(pen, { font: LABEL.font, textBaseline: "middle", fillStyle: colour, direction: "ltr" });
    pen.textAlign = isRow ? "right" : "left";
    pen.fillText(text, inner, 0, room);
    pen.textAlign = isRow ? "left" : "right";
    pen.globalAlpha = 0.7;
    pen.fillText(number, outer, 0);
  }
}
