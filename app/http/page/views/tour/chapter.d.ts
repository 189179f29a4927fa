/** What the chapters of the tour have in common. */

import type { Model } from "../../types.js";
import type { Head, Lesson } from "./lesson.js";

/** What is chosen in one chapter and holds in the others as well. */
export interface Focus {
  head: Head;
  /** Open a chapter. */
  open(chapter: string): void;
}

export interface Chapter {
  /** As in the address: `#/tour/name`. */
  name: string;
  title: string;
  /** What it explains; parts depend on the model's architecture. */
  text(model: Model): Node[];
  /** What it shows of the sentence. */
  live(lesson: Lesson, focus: Focus): HTMLElement;
}
