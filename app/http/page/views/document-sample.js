/**
 * The beginning of a file's text, by which its language is detected before it is sent.
 */

import { zippedFiles } from "../zip.js";

const MAX_BYTES = 24_000;
const MAX_CHARACTERS = 1000;
/** Larger packages are not opened here; the service detects their language. */
const MAX_PACKAGE_BYTES = 30_000_000;

/** The part of a package that has its text, by the ending. @type {Record<string, RegExp>} */
const PARTS = {
  docx: /^word\/document\.xml$/,
  dotx: /^word\/document\.xml$/,
  pptx: /^ppt\/slides\/slide\d+\.xml$/,
  xlsx: /^xl\/sharedStrings\.xml$/,
  odt: /^content\.xml$/,
  ott: /^content\.xml$/,
  ods: /^content\.xml$/,
  odp: /^content\.xml$/,
  epub: /\.x?html?$/,
};

/** Files that are text, perhaps with marks. Keys of catalogues are not of the text's language, so those are not here. */
const PLAIN = new Set("txt md markdown mdx rst html xhtml srt vtt csv tsv".split(" "));

/**
 * The ending of a file's name, in lower case.
 *
 * @param {string} name
 */
export function endingOf(name) {
  return name.split(".").pop()?.toLowerCase() ?? "";
}

/**
 * The beginning of a file's text.
 *
 * @param {File} file
 * @returns {Promise<string>} Empty if it cannot be told here.
 */
export async function sampleOf(file) {
  const ending = endingOf(file.name);
  try {
    if (PLAIN.has(ending)) return textIn(await file.slice(0, MAX_BYTES).text());
    const part = PARTS[ending];
    return part && file.size <= MAX_PACKAGE_BYTES ? await sampleOfPackage(file, part) : "";
  } catch {
    // A damaged file: the service says what is wrong with it.
    return "";
  }
}

/**
 * @param {File} file
 * @param {RegExp} part
 */
async function sampleOfPackage(file, part) {
  let longest = "";
  for (const { name, stream } of zippedFiles(await file.arrayBuffer())) {
    if (!part.test(name)) continue;
    const text = textIn(await beginningOf(stream()));
    if (text.length > longest.length) longest = text;
    if (longest.length === MAX_CHARACTERS) break;
  }
  return longest;
}

/** @param {ReadableStream<Uint8Array>} stream */
async function beginningOf(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (text.length < MAX_BYTES) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return text.slice(0, MAX_BYTES);
}

/**
 * A text without tags, styles and times.
 *
 * @param {string} marked
 */
function textIn(marked) {
  const body = marked.slice(Math.max(0, marked.search(/<(?:body|w:body|office:body)[\s>]/)));
  return body
    .replace(/<[^<>]*>/g, " ")
    .replace(/[\d:.,>-]{4,}|\s+/g, " ")
    .trim()
    .slice(0, MAX_CHARACTERS);
}
