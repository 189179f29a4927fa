/**
 * Starts the page: loads the languages of the service, and shows the view that the fragment names.
 */

import { models, Problem, setApiKey } from "./api.js";
import { isDark } from "./colours.js";
import { fill, h } from "./element.js";
import { readFragment } from "./fragment.js";
import { languageTag, Languages } from "./languages.js";
import { Store } from "./store.js";
import { chooseLanguage, otherLanguages, t } from "./texts.js";

/** @import { Page, View } from "./types.js" */

/**
 * Views are loaded when opened. One without a link is a part of the view that it names.
 *
 * @type {Record<string, { title: string, part?: string, load: (page: Page) => Promise<(page: Page) => View> }>}
 */
const VIEWS = {
  translate: { title: t("main.translate"), load: loadTranslateView },
  attention: { title: t("main.attention"), load: async () => (await import("./views/attention.js")).attentionView },
  edit: { title: t("edit.title"), part: "translate", load: async () => (await import("./views/edit.js")).editView },
  tour: { title: t("main.howItWorks"), load: async () => (await import("./views/tour.js")).tourView },
};
const FIRST = "translate";

/** The view "translate", and what only a service that keeps corrections needs. @param {Page} page */
async function loadTranslateView({ languages }) {
  const [{ translateView }, corrections] = await Promise.all([
    import("./views/translate.js"),
    languages.keepsCorrections ? import("./views/corrections.js") : null,
  ]);
  return (/** @type {Page} */ page) => translateView(page, corrections?.Corrections);
}

const RETRY_MS = 2000;

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** @param {Page} page */
function showViews(page) {
  /** @type {Record<string, View>} */
  const views = {};
  /** @type {View | undefined} */
  let shown;
  let turn = 0;
  const links = Object.entries(VIEWS)
    .filter(([, view]) => !view.part)
    .map(([name, view]) => h("a", { href: `#/${name}` }, view.title));
  element("views").setAttribute("aria-label", t("main.views"));
  fill(element("views"), ...links);

  async function show() {
    turn += 1;
    const own = turn;
    const { view, part, choices } = readFragment(location.hash);
    const name = Object.hasOwn(VIEWS, view) ? view : FIRST;
    const about = /** @type {(typeof VIEWS)[string]} */ (VIEWS[name]);
    if (Object.keys(choices).length) {
      page.store.set(choices);
      // The page now has the shared choices; a reload after an edit must not restore them.
      history.replaceState(null, "", `#/${name}${part && `/${part}`}`);
    }
    const create = views[name] ? null : await about.load(page).catch(() => null);
    // Another view was opened while this one was loading.
    if (own !== turn) return;
    if (create) views[name] = create(page);
    if (!views[name]) {
      const again = h("a", { href: `#/${name}`, onclick: () => location.reload() }, t("main.reloadThePage"));
      fill(
        element("main"),
        h("p", { class: "notice error", role: "alert" }, t("main.theServiceCannotBeReached"), again),
      );
      shown = undefined;
      return;
    }
    const before = shown;
    shown = views[name];
    if (shown !== before) before?.hide?.();
    for (const link of links) {
      if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
      else if (link.hash === `#/${about.part}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    document.title = `${about.title} · Verso`;
    if (shown !== before) fill(element("main"), shown.element);
    shown.show?.(part);
  }

  addEventListener("hashchange", async () => {
    await show();
    // A view that opens another part moves the focus there itself.
    if (!element("main").contains(document.activeElement)) element("main").focus();
  });
  return show();
}

/** Models that the footer describes; of more it says how many there are. */
const DESCRIBED_MODELS = 4;

/** The name of the shipped translator, and the line that serves better models of its languages. */
const SHIPPED = "verso-en-de";
const BETTER_MODELS = "VERSO_MODELS=firefox:en-de,firefox:de-en make serve";

function showFooter(/** @type {Languages} */ languages) {
  const about = languages.models.slice(0, DESCRIBED_MODELS).map((model) => {
    const { encoder_layers: encoder, decoder_layers: decoder, num_heads: heads, d_model: width } = model.architecture;
    return h(
      "span",
      { title: model.attribution.join("\n") },
      t("main.modelSummary", {
        name: model.name,
        encoder,
        decoder,
        heads,
        width,
        precision: model.precision,
        device: model.device,
      }),
      model.licence ? `, ${model.licence}` : "",
    );
  });
  const others = languages.models.length - about.length;
  if (others > 0) about.push(h("span", {}, t("main.moreModels", { count: others })));
  if (languages.models.some((model) => model.name === SHIPPED)) {
    about.push(h("span", {}, t("main.betterModels"), h("code", {}, BETTER_MODELS)));
  }
  fill(element("footer"), ...about);
}

function addThemeButton() {
  const button = element("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  function label() {
    fill(button, isDark() ? "☀" : "☾");
    button.setAttribute("aria-label", isDark() ? t("main.lightTheme") : t("main.darkTheme"));
  }
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("verso.theme", theme);
    } catch {
      // Storage is disabled: the theme lasts until the page is closed.
    }
    label();
    dispatchEvent(new Event("verso:theme"));
  });
  system.addEventListener("change", () => {
    label();
    dispatchEvent(new Event("verso:theme"));
  });
  label();
}

/** A button for each other language of the page, in that language. */
function addLanguageButtons() {
  const buttons = otherLanguages().map(({ code, name }) =>
    h("button", { type: "button", class: "quiet", lang: code, onclick: () => chooseLanguage(code) }, name),
  );
  fill(element("languages"), ...buttons);
}

/** Asks for the API key when an answer requires one. */
function askForKey() {
  const input = h("input", { type: "password", name: "key", autocomplete: "off", required: true });
  const reason = h("p");
  const dialog = h(
    "dialog",
    { "aria-labelledby": "key-title" },
    h(
      "form",
      {
        method: "dialog",
        onsubmit: () => {
          setApiKey(input.value.trim());
          input.value = "";
          dispatchEvent(new Event("verso:key-given"));
        },
      },
      h("h2", { id: "key-title" }, t("main.thisServiceNeedsAKey")),
      reason,
      h("label", {}, t("main.apiKey"), input),
      h("p", { class: "muted" }, t("main.itIsStoredInThis")),
      h("button", { class: "primary" }, t("main.useTheKey")),
    ),
  );
  document.body.append(dialog);
  addEventListener("verso:key-needed", (event) => {
    const { status, isFirst } = /** @type {CustomEvent<{ status: number, isFirst: boolean }>} */ (event).detail;
    const refused = status === 403 ? t("main.keyNotAllowed") : t("main.keyUnknown");
    fill(reason, isFirst ? t("main.keyWanted") : refused);
    if (!dialog.open) dialog.showModal();
  });
}

async function start() {
  addThemeButton();
  addLanguageButtons();
  fill(element("skip"), t("main.skip"));
  // Its address would be read as a view.
  element("skip").addEventListener("click", (event) => {
    event.preventDefault();
    element("main").focus();
  });
  askForKey();
  const languages = await languagesWhenReady();
  const store = new Store();
  if (!store.get().target) store.set({ target: firstTarget(languages) });
  showFooter(languages);
  await showViews({
    store,
    languages,
    announce: (message) => fill(element("announcements"), message),
    open: (view) => {
      location.hash = `#/${view}`;
    },
  });
}

/**
 * The initial target: that of the first pair, else the language of the browser.
 *
 * @param {Languages} languages
 */
function firstTarget(languages) {
  const [first] = languages.models.flatMap((model) => model.pairs);
  const targets = languages.targets("auto");
  const own = targets.find((code) => navigator.language.startsWith(languageTag(code)));
  return first?.[1] ?? own ?? targets[0] ?? "";
}

/** The languages, once the models are loaded; until then the page shows the state. */
async function languagesWhenReady() {
  for (;;) {
    try {
      const loaded = await models();
      if (loaded.models.length) return new Languages(loaded);
      fill(element("main"), h("p", { class: "notice" }, t("main.noModelIsLoadedThe")));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fill(element("main"), h("p", { class: "notice", role: "status" }, error.message));
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

start();
