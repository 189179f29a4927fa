/**
 * Reads ZIP archives.
 */

import { t } from "./texts.js";

const END_OF_DIRECTORY = 0x06054b50;
const ENTRY = 0x02014b50;
const DEFLATED = 8;

/** @typedef {{ name: string, stream: () => ReadableStream<Uint8Array> }} ZippedFile */

/**
 * The files of an archive, in the order of its directory.
 *
 * @param {ArrayBuffer} content
 * @returns {Generator<ZippedFile, void>}
 * @throws {Error} It is no archive.
 */
export function* zippedFiles(content) {
  const view = new DataView(content);
  let end = content.byteLength - 22;
  while (end >= 0 && view.getUint32(end, true) !== END_OF_DIRECTORY) end -= 1;
  if (end < 0) throw new Error(t("zip.noArchive"));
  let entry = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left -= 1) {
    if (view.getUint32(entry, true) !== ENTRY) throw new Error(t("zip.damaged"));
    const nameLength = view.getUint16(entry + 28, true);
    const name = new TextDecoder().decode(new Uint8Array(content, entry + 46, nameLength));
    const file = view.getUint32(entry + 42, true);
    const begin = file + 30 + view.getUint16(file + 26, true) + view.getUint16(file + 28, true);
    const packed = new Blob([content.slice(begin, begin + view.getUint32(entry + 20, true))]);
    const isDeflated = view.getUint16(entry + 10, true) === DEFLATED;
    yield { name, stream: () => (isDeflated ? inflated(packed) : packed.stream()) };
    entry += 46 + nameLength + view.getUint16(entry + 30, true) + view.getUint16(entry + 32, true);
  }
}

/** @param {Blob} packed */
function inflated(packed) {
  return packed.stream().pipeThrough(new DecompressionStream("deflate-raw"));
}
