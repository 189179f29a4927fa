// Applies the chosen theme before anything is drawn; a classic script in the head, because modules run later.

try {
  const theme = localStorage.getItem("verso.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is switched off: the theme is the system's.
}
