"use strict";
// Before the first paint: the reader's choice of colours, and that scripts run at all.
document.documentElement.classList.add("scripted");
try {
  const theme = localStorage.getItem("llama-tracker-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden for files; the system's colours do.
}
