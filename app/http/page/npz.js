/**
 * Reads NumPy's archives of arrays: a ZIP file with one `.npy` file for each array (numpy.lib.format, version 1 to 3).
 */

import { t } from "./texts.js";

/** @typedef {{ shape: number[], data: Float32Array | Float64Array | number[] | string[] }} NpyArray  In row order. */
/** @typedef {Record<string, NpyArray>} Arrays */

const END_OF_DIRECTORY = 0x06054b50;
const ENTRY = 0x02014b50;
const DEFLATED = 8;

/**
 * The arrays of an archive, by name.
 *
 * @param {ArrayBuffer} content
 * @returns {Promise<Arrays>}
 * @throws {Error} It is no archive, or holds arrays of a type that the service does not write.
 */
export async function readNpz(content) {
  const view = new DataView(content);
  let end = content.byteLength - 22;
  while (end >= 0 && view.getUint32(end, true) !== END_OF_DIRECTORY) end -= 1;
  if (end < 0) throw new Error(t("npz.theAnswerIsNoNpz"));
  /** @type {Arrays} */
  const arrays = {};
  let entry = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left -= 1) {
    if (view.getUint32(entry, true) !== ENTRY) throw new Error(t("npz.theArchiveSDirectoryIs"));
    const nameLength = view.getUint16(entry + 28, true);
    const name = new TextDecoder().decode(new Uint8Array(content, entry + 46, nameLength));
    const file = view.getUint32(entry + 42, true);
    const begin = file + 30 + view.getUint16(file + 26, true) + view.getUint16(file + 28, true);
    const packed = content.slice(begin, begin + view.getUint32(entry + 20, true));
    const plain = view.getUint16(entry + 10, true) === DEFLATED ? await inflated(packed) : packed;
    arrays[name.replace(/\.npy$/, "")] = readNpy(plain, name);
    entry += 46 + nameLength + view.getUint16(entry + 30, true) + view.getUint16(entry + 32, true);
  }
  return arrays;
}

/** @param {ArrayBuffer} packed */
function inflated(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}

/**
 * @param {ArrayBuffer} content
 * @param {string} name For messages.
 * @returns {NpyArray}
 */
function readNpy(content, name) {
  const view = new DataView(content);
  const isShort = view.getUint8(6) === 1;
  const begin = isShort ? 10 : 12;
  const length = isShort ? view.getUint16(8, true) : view.getUint32(8, true);
  const header = new TextDecoder().decode(new Uint8Array(content, begin, length));
  const type = /'descr': '([^']+)'/.exec(header)?.[1] ?? "";
  const shape = (/'shape': \(([^)]*)\)/.exec(header)?.[1] ?? "")
    .split(",")
    .filter((size) => size.trim())
    .map(Number);
  const raw = content.slice(begin + length);
  if (type === "<f4") return { shape, data: new Float32Array(raw) };
  if (type === "<f8") return { shape, data: new Float64Array(raw) };
  if (type === "<i8") return { shape, data: Array.from(new BigInt64Array(raw), Number) };
  if (type.startsWith("<U")) return { shape, data: strings(new Uint32Array(raw), Number(type.slice(2)), shape) };
  throw new Error(t("npz.theArrayHasTheType", { name, type }));
}

/**
 * @param {Uint32Array} characters Those of all strings, each filled up with zeros.
 * @param {number} width Characters of one string.
 * @param {number[]} shape
 */
function strings(characters, width, shape) {
  const count = shape.reduce((product, size) => product * size, 1);
  return Array.from({ length: count }, (_, index) => {
    const own = characters.subarray(index * width, (index + 1) * width);
    return Array.from(
      own.filter((character) => character),
      (character) => String.fromCodePoint(character),
    ).join("");
  });
}
