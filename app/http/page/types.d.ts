/** What the service answers (its OpenAPI document describes it), and what the views share. */

/** First character and the one after the last. */
export type Span = [number, number];

export interface ErrorBody {
  title: string;
  status: number;
  code: string;
  detail: string | null;
  errors?: { field: string; message: string }[];
}

export interface Model {
  name: string;
  /** Source and target. */
  pairs: [string, string][];
  /** Languages that are all translated into one another. */
  languages: string[];
  precision: string;
  device: string;
  architecture: {
    d_model: number;
    d_ff: number;
    num_heads: number;
    encoder_layers: number;
    decoder_layers: number;
    norm: string;
    positions: string;
    [name: string]: unknown;
  };
  /** How it is decoded unless a request says otherwise. */
  decoding: { scoring: "hf" | "ct2" | "marian" | "wu"; length_penalty: number; [name: string]: unknown };
  limits: {
    max_texts: number;
    max_text_characters: number;
    max_beam_size: number;
    max_hypotheses: number;
    max_source_tokens: number;
    max_target_tokens: number;
    deadline_s: number;
  };
  capabilities: { placeholders: number; formality: string[]; glossary: boolean };
  licence: string | null;
  attribution: string[];
  card?: { confidence?: { calibrated: boolean; estimates?: string } };
}

/** The pairs that two models translate one after the other, and others of the same languages. */
export interface Pivot {
  /** The pivot language. */
  language: string;
  pairs: [string, string][];
  languages: string[];
}

export interface ModelsAnswer {
  models: Model[];
  pivot?: Pivot;
  /** Whether confirmed translations are stored as corrections. */
  corrections?: boolean;
}

export interface AlignmentLink {
  source: Span;
  target: Span;
  weight: number;
}

export interface Confidence {
  score: number;
  words: { target: Span; probability: number }[];
  uncovered: Span[] | null;
}

export interface Alternative {
  text: string;
  score: number | null;
  finish_reason: "stop" | "length";
}

/** One more token for a hypothesis; `parent` 0 is the beginning; `log_prob` is the sum up to here. */
export interface Candidate {
  id: number;
  parent: number;
  token: string;
  /** The token as it continues the sentence, with a space before it where it begins a word. */
  text: string;
  log_prob: number;
  kept: boolean;
  finished: boolean;
}

export interface SearchStep {
  step: number;
  hypotheses: Candidate[];
}

/** A sentence that a translation memory has, or a similar one. */
export interface MemoryUse {
  source: Span;
  status: "exact" | "steered" | "offered";
  /** The similarity, 0 to 1. */
  score: number;
  /** Ids. */
  memory: string;
  unit: number;
  stored_source: string;
  stored_target: string;
}

export interface Translation {
  text: string;
  source: string;
  target: string;
  finish_reason: "stop" | "length";
  score: number | null;
  alternatives: Alternative[];
  alignment: AlignmentLink[] | null;
  model: string | null;
  /** The first of two legs. */
  via?: { language: string; model: string };
  detected: { language: string; confidence: number } | null;
  confidence?: Confidence;
  integrity?: {
    status: "intact" | "restored";
    spans: { source: Span; target: Span; restored: boolean }[];
    numbers?: { source: Span; target: Span }[];
  };
  glossary?: { source: Span; target: Span | null; status: "used" | "replaced" | "missing" }[];
  search?: SearchStep[];
  memory?: MemoryUse[];
}

export interface TranslateAnswer {
  translations: (Translation | { error: ErrorBody })[];
  model: string;
  usage: { source_tokens: number; target_tokens: number };
  timings_ms: { queue: number; decode: number; total: number };
}

export type StreamEvent =
  | {
      event: "sentence";
      text: number;
      sentence: number;
      source: Span;
      translation: string;
      finish_reason: "stop" | "length";
    }
  | { event: "translation"; text: number; translation: Translation }
  | ({ event: "done" } & Omit<TranslateAnswer, "translations">);

export interface Document {
  id: string;
  status: "queued" | "running" | "done" | "failed" | "cancelled";
  filename: string;
  sentences: { done: number; total: number | null };
  seconds_left: number | null;
  expires_at: string;
  untranslated?: number;
  memory?: Record<MemoryUse["status"], number>;
  problem?: ErrorBody;
}

/** A sentence of a translated document. */
export interface Sentence {
  number: number;
  /** The paragraph that it belongs to. */
  text: number;
  /** With markers of inline elements, such as {1} and {/1}. */
  source: string;
  translation: string;
  edited: boolean;
  confirmed: boolean;
  /** If it is edited. */
  machine_translation?: string;
  /** By number, what the element of a marker shows. */
  markers?: Record<string, string>;
}

/** What is known of all sentences of a document. */
export interface SentenceCounts {
  total: number;
  edited: number;
  confirmed: number;
  expires_at: string;
}

export interface SentencePage extends SentenceCounts {
  filename: string;
  source: string;
  target: string;
  sentences: Sentence[];
  /** The number after which the next page begins. */
  next: number | null;
}

export interface ChangedSentences extends SentenceCounts {
  sentences: Sentence[];
}

export interface SentenceChange {
  number: number;
  translation: string;
  confirmed: boolean;
}

/** A term typed by hand. */
export interface GlossaryTerm {
  source: string;
  target: string;
}

export interface Glossary {
  glossary_id: string;
  name: string;
  ready: boolean;
  source_lang: string;
  target_lang: string;
  entry_count: number;
}

/** What attends to what: source to source, translation to translation, translation to source. */
export type Kind = "encoder" | "decoder" | "cross";

/** What the views share. */
export interface Choices {
  /** A code or `auto`. */
  source: string;
  target: string;
  /** The text to translate. */
  text: string;
  /** The one sentence that the explorer and the tour look at; empty: the first sentence of the text. */
  sentence: string;
  decoding: "greedy" | "beam";
  beamSize: number;
  /** Empty: the model's own. */
  formality: "" | "formal" | "informal";
  /** Id of a stored glossary; empty: none. */
  glossary: string;
}

/** What a view gets. */
export interface Page {
  store: import("./store.js").Store;
  languages: import("./languages.js").Languages;
  /** Tell people who use a screen reader. */
  announce(message: string): void;
  /** Go to another view. */
  open(view: string): void;
}

/** One view of the page, made once when it is first opened. */
export interface View {
  element: HTMLElement;
  /** It becomes visible, or another part of it is asked for: what the address has behind `#/view/`. */
  show?(part: string): void;
  /** It is left. */
  hide?(): void;
}
