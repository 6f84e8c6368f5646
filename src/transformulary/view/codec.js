"use strict";
// The way back from the codes of weights.py, which says what they mean.

const CODES = 65536;

/** The weight of a code as a number (for "< 1e-7": 0, so that sums stay honest). */
function valueOf(code) {
  return code < 2 ? 0 : Number(`${1000 + ((code - 2) % 9000)}e${Math.floor((code - 2) / 9000) - 10}`);
}

/** The weight of a code as text, with the four digits that are known. */
function textOf(code) {
  return code === 0 ? "0" : code === 1 ? "< 1e-7" : valueOf(code).toPrecision(4);
}

/** Bytes of a text made by weights.text: base64 of a zlib stream. */
async function bytesOf(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

/** The codes of one head: `at(query, key)`, both from 0, is the code of one weight. */
class Head {
  static async read(text, columns, causal) {
    const bytes = await bytesOf(text);
    const codes = new Uint16Array(bytes.length / 2);
    for (let i = 0; i < codes.length; i++) codes[i] = (bytes[i] << 8) | bytes[codes.length + i];
    return new Head(codes, columns, causal);
  }

  constructor(codes, columns, causal) {
    Object.assign(this, { codes, columns, causal });
  }

  /** Where the row of a query starts, and how many keys it holds. */
  start(query) {
    return this.causal ? (query * (query + 1)) / 2 : query * this.columns;
  }

  keys(query) {
    return this.causal ? query + 1 : this.columns;
  }

  at(query, key) {
    return key < this.keys(query) ? this.codes[this.start(query) + key] : 0;
  }

  row(query) {
    return this.codes.subarray(this.start(query), this.start(query) + this.keys(query));
  }

  /** The largest code of each range of keys [edges[i], edges[i + 1]) over queries from..to - 1, into `out`. */
  largest(from, to, edges, out) {
    out.fill(0);
    for (let query = from; query < to; query++) {
      const start = this.start(query), end = this.keys(query);
      for (let i = 0; i < out.length && edges[i] < end; i++) {
        const stop = Math.min(edges[i + 1], end);
        for (let key = edges[i]; key < stop; key++) {
          const code = this.codes[start + key];
          if (code > out[i]) out[i] = code;
        }
      }
    }
  }
}

/** What share of the colour map a weight takes, and the weights worth a tick in the legend. */
const SCALES = {
  linear: { share: (w) => w, ticks: [0, 0.25, 0.5, 0.75, 1] },
  root: { share: Math.sqrt, ticks: [0, 0.01, 0.1, 0.25, 0.5, 1] },
  log: { share: (w) => Math.max(0, 1 + Math.log10(w) / 4), ticks: [0.0001, 0.01, 0.1, 1] },
};

/** A colour for every code: `table` for pixels (little-endian RGBA, nothing where the weight is 0), `css` for styles. */
class Colours {
  constructor(palette, scale) {
    const { share } = SCALES[scale];
    this.palette = palette; // 256 x RGB
    this.place = Uint8Array.from({ length: CODES }, (_, code) => Math.round(255 * Math.min(1, share(valueOf(code)))));
    this.table = Uint32Array.from(this.place, (i) => (255 << 24) | (palette[3 * i + 2] << 16) | (palette[3 * i + 1] << 8) | palette[3 * i]);
    this.table[0] = 0;
  }

  css(i) {
    return `rgb(${this.palette.slice(3 * i, 3 * i + 3).join()})`;
  }

  /** Background and a text colour that can be read on it. */
  style(code) {
    if (!code) return "";
    const [r, g, b] = this.palette.slice(3 * this.place[code]);
    return `background:${this.css(this.place[code])};color:${0.299 * r + 0.587 * g + 0.114 * b > 125 ? "#111" : "#fff"}`;
  }
}
