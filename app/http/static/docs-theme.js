// Swagger UI is dark where the document has this class: as the system is, or as was chosen on the page of translations.
const systemTheme = matchMedia("(prefers-color-scheme: dark)");

function showTheme() {
  let theme = null;
  try {
    theme = localStorage.getItem("verso.theme");
  } catch {
    // Storage is disabled: the theme is the system's.
  }
  const isDark = theme === "dark" || (theme !== "light" && systemTheme.matches);
  document.documentElement.classList.toggle("dark-mode", isDark);
}

showTheme();
systemTheme.addEventListener("change", showTheme);
