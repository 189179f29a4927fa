/**
 * The texts of the page, in the language of the browser or the one that was chosen. A file of `texts/` has those of one
 * language; only that one is loaded.
 */

/** @typedef {keyof typeof import("./texts/en.js").default | keyof typeof import("./texts/en-tour.js").default} Key */

const CHOSEN = "verso.language";

/** @type {Record<string, { name: string, load: () => Promise<{ default: Record<string, string> }[]> }>} */
const LANGUAGES = {
  en: { name: "English", load: () => Promise.all([import("./texts/en.js"), import("./texts/en-tour.js")]) },
  de: {
    name: "Deutsch",
    load: () => Promise.all([import("./texts/de.js"), import("./texts/de-tour.js"), import("./texts/de-problems.js")]),
  },
};
const FIRST = "en";

/** The language of the interface: the chosen one, else the first of the browser that the page has. */
export const language = chosenLanguage();

const about = /** @type {(typeof LANGUAGES)[string]} */ (LANGUAGES[language]);
/** @type {Record<string, string>} */
const texts = Object.assign({}, ...(await about.load()).map((file) => file.default));
const NUMBERS = new Intl.NumberFormat(language, { useGrouping: "min2", maximumFractionDigits: 20 });

document.documentElement.lang = language;

function chosenLanguage() {
  const wanted = [stored(), ...navigator.languages].map((tag) => tag?.split("-")[0] ?? "");
  return wanted.find((code) => Object.hasOwn(LANGUAGES, code)) ?? FIRST;
}

function stored() {
  try {
    return localStorage.getItem(CHOSEN);
  } catch {
    // Storage is disabled: the language is the browser's.
    return null;
  }
}

/**
 * A text of the page.
 *
 * @param {Key} key
 * @param {Record<string, string | number | null>} [values] What its placeholders in braces stand for.
 */
export function t(key, values = {}) {
  return filledIn(/** @type {string} */ (texts[key]), values);
}

/**
 * What is said of an error of the service, which writes English itself.
 *
 * @param {string} code Of the error.
 * @param {string} detail What the service says.
 */
export function problemText(code, detail) {
  const text = texts[`problem.${code}`];
  return text === undefined ? detail : filledIn(text, { detail });
}

/**
 * @param {string} text
 * @param {Record<string, string | number | null>} values
 */
function filledIn(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name] ?? "";
    return typeof value === "number" ? NUMBERS.format(value) : value;
  });
}

/** The other languages of the page, and their own names. */
export function otherLanguages() {
  return Object.entries(LANGUAGES)
    .filter(([code]) => code !== language)
    .map(([code, { name }]) => ({ code, name }));
}

/** Shows the page in another language from now on. @param {string} code */
export function chooseLanguage(code) {
  try {
    localStorage.setItem(CHOSEN, code);
  } catch {
    // Storage is disabled: the language cannot be remembered.
  }
  location.reload();
}
