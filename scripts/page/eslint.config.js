// The rules for app/http/page/ beyond types, undefined names and unused variables, which tsc checks (tsconfig.json).
//
// The page shows texts of others: translations, file names, terms of glossaries. The rules about markup and scripts forbid
// every way to parse such a text as HTML or to run it.
import css from "@eslint/css";
import js from "@eslint/js";
import jsdoc from "eslint-plugin-jsdoc";

const MARKUP = "It parses text as markup. Use textContent, append or createElement.";
const MARKUP_PROPERTIES = [
  "innerHTML",
  "outerHTML",
  "srcdoc",
  "insertAdjacentHTML",
  "createContextualFragment",
  "parseFromString",
  "parseHTML",
  "parseHTMLUnsafe",
  "setHTML",
  "setHTMLUnsafe",
];
const HANDLER = "Use addEventListener.";

const restrictedProperties = [
  ...MARKUP_PROPERTIES.map((property) => ({ property, message: MARKUP })),
  { object: "document", property: "write", message: MARKUP },
  { object: "document", property: "writeln", message: MARKUP },
  { object: "document", property: "cookie", message: "The page sets no cookie." },
  { property: "cssText", message: "Use a class, or setProperty for a computed value." },
];

const restrictedSyntax = [
  {
    selector: "CallExpression[callee.property.name=/^setAttribute/] > Literal.arguments[value=/^(on|srcdoc$)/i]",
    message: HANDLER,
  },
  {
    selector: "CallExpression[callee.property.name=/^setAttribute/] > Literal.arguments[value=/^style$/i]",
    message: "The Content-Security-Policy of the page forbids style attributes.",
  },
  { selector: "AssignmentExpression > MemberExpression.left[property.name=/^on[a-z]+$/]", message: HANDLER },
  {
    selector: "ImportDeclaration[source.value!=/^\\./], ImportExpression:not([source.value=/^\\./])",
    message: "Modules are imported from files of the page, by a relative path.",
  },
];

export default [
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  {
    files: ["**/*.js"],
    plugins: { jsdoc },
    languageOptions: { globals: { setTimeout: "readonly", setInterval: "readonly", window: "readonly" } },
    settings: { jsdoc: { mode: "typescript" } },
    rules: {
      ...js.configs.recommended.rules,
      "no-undef": "off", // tsc
      "no-unused-vars": "off", // tsc
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-script-url": "error",
      "no-restricted-properties": ["error", ...restrictedProperties],
      "no-restricted-syntax": ["error", ...restrictedSyntax],
      "no-alert": "error",
      "no-console": "error",
      "no-var": "error",
      "prefer-const": "error",
      eqeqeq: "error",
      "no-shadow": "error",
      "object-shorthand": "error",
      "prefer-template": "error",
      "jsdoc/require-jsdoc": [
        "error",
        {
          publicOnly: { esm: true },
          require: { FunctionDeclaration: true, ClassDeclaration: true, MethodDefinition: true },
          checkConstructors: false,
        },
      ],
      "jsdoc/check-param-names": "error",
      "jsdoc/check-tag-names": "error",
    },
  },
  {
    files: ["**/*.css"],
    plugins: { css },
    language: "css/css",
    rules: {
      ...css.configs.recommended.rules,
      "css/no-important": "off",
      "css/use-baseline": "off",
      // The variables are in page.css.
      "css/no-invalid-properties": ["error", { allowUnknownVariables: true }],
    },
  },
];
