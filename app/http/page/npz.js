/**
 * Reads NumPy's archives of arrays: a ZIP file with one `.npy` file for each array (numpy.lib.format, version 1 to 3).
 */

import { t } from "./texts.js";
import { zippedFiles } from "./zip.js";

/** @typedef {{ shape: number[], data: Float32Array | Float64Array | number[] | string[] }} NpyArray  In row order. */
/** @typedef {Record<string, NpyArray>} Arrays */

/**
 * The arrays of an archive, by name.
 *
 * @param {ArrayBuffer} content
 * @returns {Promise<Arrays>}
 * @throws {Error} It is no archive, or holds arrays of a type that the service does not write.
 */
export async function readNpz(content) {
  /** @type {Arrays} */
  const arrays = {};
  for (const { name, stream } of zippedFiles(content)) {
    arrays[name.replace(/\.npy$/, "")] = readNpy(await new Response(stream()).arrayBuffer(), name);
  }
  return arrays;
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
  throw new Error(t("npz.unknownType", { name, type }));
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
