/**
 * The service's routes. Addresses are relative to the page, so that a proxy can serve it under any path.
 */

import { readNpz } from "./npz.js";
import { problemText, t } from "./texts.js";

/** @import { ChangedSentences, Document, ErrorBody, Glossary, ModelsAnswer, SentenceChange, SentencePage } from "./types.js" */
/** @import { StreamEvent, TranslateAnswer, Translation } from "./types.js" */
/** @import { Arrays } from "./npz.js" */

const KEY = "verso.key";

/** Characters of a body that a browser sends after the page was closed: 64 KiB, with up to three bytes for each. */
const MAX_KEPT_ALIVE = 20_000;

/** An error answer of the service; `message` is for users. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {Partial<ErrorBody>} body
   */
  constructor(status, body) {
    const said = body.detail ?? body.title;
    super(said ? problemText(body.code ?? "", said) : t("api.theServiceAnsweredWithStatus", { status }));
    this.name = "Problem";
    this.status = status;
    this.code = body.code ?? "unknown";
    /** The refused fields, with what the service says of each. */
    this.errors = body.errors ?? [];
  }
}

/** The API key of this tab, or null. It is stored until the tab is closed, and nowhere else. */
function apiKey() {
  return sessionStorage.getItem(KEY);
}

/** @param {string} key An empty key removes the stored one. */
export function setApiKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

/**
 * Sends a request, and returns its successful response.
 *
 * @param {string} path
 * @param {{ method?: string, json?: unknown, form?: FormData, accept?: string, scheme?: string, signal?: AbortSignal,
 *   isKept?: boolean }} [options] `scheme`: the scheme of the key in the header. `isKept`: whether it is sent to the end
 *   although the page is closed.
 * @returns {Promise<Response>}
 * @throws {Problem} The service refused the request, or cannot be reached (status 0).
 */
export async function request(
  path,
  { method, json, form, accept = "application/json", scheme, signal, isKept = false } = {},
) {
  const headers = new Headers({ Accept: accept });
  // Routes with their own scheme require a key, even if the service has none; any key will do.
  const key = apiKey() ?? (scheme ? "page" : null);
  if (key) headers.set("Authorization", `${scheme ?? "Bearer"} ${key}`);
  if (json !== undefined) headers.set("Content-Type", "application/json");
  const body = json === undefined ? form : JSON.stringify(json);
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers,
      keepalive: isKept && typeof body === "string" && body.length < MAX_KEPT_ALIVE,
      ...(body === undefined ? {} : { body }),
      ...(signal === undefined ? {} : { signal }),
      credentials: "omit",
    });
  } catch (error) {
    return lostConnection(error);
  }
  if (!response.ok) {
    const problem = new Problem(response.status, await response.json().catch(() => ({})));
    if (response.status === 401 || response.status === 403) {
      const detail = { status: response.status, isFirst: apiKey() === null };
      dispatchEvent(new CustomEvent("verso:key-needed", { detail }));
    }
    throw problem;
  }
  return response;
}

/**
 * @param {unknown} error The browser's error of a request without an answer.
 * @returns {never}
 */
function lostConnection(error) {
  if (isAbort(error)) throw error;
  throw new Problem(0, { code: "unreachable", detail: t("api.theServiceCannotBeReached") });
}

/** Whether the page itself cancelled the request. @param {unknown} error */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * A request whose answer is JSON.
 *
 * @param {Parameters<typeof request>} options
 * @returns {Promise<any>}
 */
async function answer(...options) {
  return (await request(...options)).json().catch(lostConnection);
}

/** @returns {Promise<ModelsAnswer>} The loaded models. */
export function models() {
  return answer("models");
}

/**
 * A translation.
 *
 * @param {Record<string, unknown>} body The fields of `POST /translate`.
 * @param {AbortSignal} [signal]
 * @returns {Promise<TranslateAnswer>}
 */
export function translate(body, signal) {
  return answer("translate", { json: body, ...(signal && { signal }) });
}

/**
 * The translation of a request with one text.
 *
 * @param {Record<string, unknown>} body The fields of `POST /translate`.
 * @param {AbortSignal} [signal]
 * @returns {Promise<Translation>}
 * @throws {Problem} Including an error of the text alone.
 */
export async function translateOne(body, signal) {
  const [translation] = (await translate(body, signal)).translations;
  if (!translation) throw new Problem(500, {});
  if ("error" in translation) throw new Problem(translation.error.status, translation.error);
  return translation;
}

/**
 * The translation of one text, event by event.
 *
 * @param {Record<string, unknown>} body The fields of `POST /translate`.
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<StreamEvent, void>}
 * @throws {Problem} Including an error after the first events.
 */
export async function* translateStream(body, signal) {
  const response = await request("translate", { json: body, accept: "application/x-ndjson", signal });
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(lostConnection);
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line) continue;
      const event = JSON.parse(line);
      if (event.event === "error") throw new Problem(event.status, event);
      yield event;
    }
  }
}

/**
 * Attention weights, and the other arrays of `POST /attention`.
 *
 * @param {Record<string, unknown>} body The fields of `POST /attention`.
 * @param {AbortSignal} [signal]
 * @returns {Promise<{ arrays: Arrays, file: Blob }>} The arrays by name, and the file with them.
 */
export async function attention(body, signal) {
  const response = await request("attention", { json: body, accept: "application/x-npz", ...(signal && { signal }) });
  const content = await response.arrayBuffer().catch(lostConnection);
  const arrays = await readNpz(content);
  // Unpacking takes a while and cannot be cancelled.
  signal?.throwIfAborted();
  return { arrays, file: new Blob([content], { type: "application/x-npz" }) };
}

/**
 * The language of a text.
 *
 * @param {string} text
 * @param {AbortSignal} [signal]
 * @returns {Promise<Translation["detected"]>} Null if it has no letters of a loaded language.
 */
export async function detect(text, signal) {
  return (await answer("detect", { json: { text }, ...(signal && { signal }) })).detections[0];
}

/** @returns {Promise<Glossary[]>} The stored glossaries. */
export async function glossaries() {
  return (await answer("v2/glossaries", { scheme: "DeepL-Auth-Key" })).glossaries;
}

/**
 * Uploads a document.
 *
 * @param {File} file
 * @param {Record<string, unknown>} options The fields of the form; values other than strings are written as JSON.
 * @param {AbortSignal} [signal]
 * @returns {Promise<Document>}
 */
export async function addDocument(file, options, signal) {
  const form = new FormData();
  form.append("file", file);
  for (const [name, value] of Object.entries(options)) {
    form.append(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  return answer("documents", { form, ...(signal && { signal }) });
}

/**
 * The status of a document.
 *
 * @param {string} id
 * @returns {Promise<Document>}
 */
export function readDocument(id) {
  return answer(`documents/${encodeURIComponent(id)}`);
}

/**
 * The translated file of a document.
 *
 * @param {string} id
 * @param {boolean} partial Whether to get the translated part of an unfinished document.
 * @returns {Promise<Response>}
 */
export function documentResult(id, partial) {
  return request(`documents/${encodeURIComponent(id)}/result${partial ? "?partial=true" : ""}`, { accept: "*/*" });
}

/**
 * Sentences of a translated document.
 *
 * @param {string} id
 * @param {{ after: number, limit: number, unconfirmed: boolean }} page The sentences after one of a number, perhaps only
 *   those that are not confirmed.
 * @returns {Promise<SentencePage>}
 */
export function readSentences(id, { after, limit, unconfirmed }) {
  const query = new URLSearchParams({
    after: String(after),
    limit: String(limit),
    ...(unconfirmed && { unconfirmed: "true" }),
  });
  return answer(`documents/${encodeURIComponent(id)}/sentences?${query}`);
}

/**
 * Changes translations of sentences.
 *
 * @param {string} id
 * @param {SentenceChange[]} sentences
 * @returns {Promise<ChangedSentences>}
 * @throws {Problem} With the sentences that cannot be saved in `errors`; then none is.
 */
export function changeSentences(id, sentences) {
  return answer(`documents/${encodeURIComponent(id)}/sentences`, {
    method: "PATCH",
    json: { sentences },
    isKept: true,
  });
}

/**
 * Stores the translation of a sentence as a correction.
 *
 * @param {{ source: string, target: string }} unit The sentence and its translation.
 * @param {{ source: string, target: string }} languages
 * @returns {Promise<unknown>}
 */
export function addCorrection(unit, languages) {
  return answer("memories/corrections/units", { json: { units: [unit], ...languages } });
}

/**
 * Deletes a stored translation.
 *
 * @param {string} memory
 * @param {number} unit
 * @returns {Promise<unknown>}
 */
export function deleteUnit(memory, unit) {
  return answer(`memories/${encodeURIComponent(memory)}/units/${unit}`, { method: "DELETE" });
}

/**
 * Cancels a document, or deletes one that is done.
 *
 * @param {string} id
 * @returns {Promise<Document>}
 */
export function deleteDocument(id) {
  return answer(`documents/${encodeURIComponent(id)}`, { method: "DELETE" });
}
