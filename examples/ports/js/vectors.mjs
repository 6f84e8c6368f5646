// Golden vectors, read in JavaScript: one JSON index, one safetensors file for every case. Node 18 or newer.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ARRAYS = { F64: Float64Array, F32: Float32Array, I64: BigInt64Array };

/** Row by row; tokens are columns; a vector has one column. */
export const matrix = (rows, columns, at = new Float64Array(rows * columns)) => ({ rows, columns, at });

/** One case of a folder of vectors: its inputs and parameters, and what its values must be. */
export class Case {
  constructor(folder, name) {
    const index = JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8'));
    if (index.format !== 'transformulary vectors' || index.version !== 1) {
      throw new Error('not version 1 of the vectors');
    }
    const entry = index.cases.find((one) => one.name === name);
    if (!entry) throw new Error(`${folder} has no case ${name}`);
    const bytes = readFileSync(join(folder, entry.file));
    if (createHash('sha256').update(bytes).digest('hex') !== entry.sha256) throw new Error(`${entry.file} was changed`);
    const length = Number(bytes.readBigUInt64LE(0)); // of the header
    Object.assign(this, { name, config: entry.config, values: entry.values, roundoff: index.unit_roundoff.float64 });
    this.header = JSON.parse(bytes.toString('utf8', 8, 8 + length));
    this.data = bytes.subarray(8 + length);
    this.groups = new Map(); // path without indices -> what was found there
    this.first = ''; // the path of the first value that differs
    this.compared = 0;
  }

  /** An input, a parameter or a value; null if the case has none of that name. */
  tensor(name) {
    if (!this.header[name]) return null;
    const { dtype, shape, data_offsets: [begin, end] } = this.header[name];
    const numbers = new ARRAYS[dtype](Uint8Array.from(this.data.subarray(begin, end)).buffer); // copied: aligned
    const rows = shape[0] ?? 1;
    return matrix(rows, numbers.length / rows, Float64Array.from(numbers, Number));
  }

  /** Compares a value with the one at `path`, if the case has it; returns the value. */
  check(path, value) {
    if (!(path in this.values)) return value;
    const allowed = this.values[path].roundoffs * this.roundoff;
    const error = relativeError(this.tensor(path).at, value.at);
    const name = path.replace(/\[.*?\]/g, '');
    const group = this.groups.get(name) ?? { values: 0, error: -1, allowed: 0 };
    if (!(error - allowed <= group.error - group.allowed)) Object.assign(group, { error, allowed });
    group.values++;
    this.groups.set(name, group);
    if (!(error <= allowed)) this.first ||= path;
    this.compared++;
    return value;
  }

  /** Prints one line for every group of values; true if all agree. */
  report() {
    for (const [name, { values, error, allowed }] of this.groups) {
      const [is, may] = [error, allowed].map((x) => x.toExponential(1));
      const found = `${String(values).padStart(3)} values, error ${is}, allowed ${may}`;
      console.log(`${this.name.padEnd(10)} ${name.padEnd(28)} ${found}${error <= allowed ? '' : '  DIFFERS'}`);
    }
    console.log(`${this.name}: ${this.first ? `differs first at ${this.first}` : `${this.compared} values agree`}`);
    return !this.first && this.compared > 0;
  }
}

/** The largest difference, relative to the largest finite number of ours; infinite where only one is finite. */
function relativeError(ours, theirs) {
  if (ours.length !== theirs.length) return Infinity;
  let largest = 0;
  let difference = 0;
  for (let k = 0; k < ours.length; k++) {
    if (Number.isFinite(ours[k]) ? !Number.isFinite(theirs[k]) : theirs[k] !== ours[k]) return Infinity;
    if (!Number.isFinite(ours[k])) continue;
    largest = Math.max(largest, Math.abs(ours[k]));
    difference = Math.max(difference, Math.abs(theirs[k] - ours[k]));
  }
  return difference / (largest || 1);
}
