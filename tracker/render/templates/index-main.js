// Addresses (#build, #build/grammar, #build/grammar/prefix, #?filter) and the colours.

const overview = document.getElementById("overview");
const detail = document.getElementById("detail");
const left = { scroll: 0, href: "" };

function parseAddress() {
  const [path, query] = location.hash.slice(1).split("?", 2);
  let parts = [];
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    parts = ["?"];
  }
  return { parts, filter: query === undefined ? null : Object.fromEntries(new URLSearchParams(query)) };
}

function pageFor([id, name, place]) {
  const build = buildNamed(id);
  const grammar = name === undefined ? -1 : grammarNamed(name);
  if (build < 0 || (name !== undefined && grammar < 0)) {
    return [trail(["not found", ""]), element("h1", { tabindex: "-1" }, "Not on this page"), element("p", { class: "banner" }, build < 0 ? `No build is called ${visible(id)}.` : `No grammar is called ${visible(name)}.`)];
  }
  if (name === undefined) return buildPage(build);
  if (place === undefined) return grammarPage(build, grammar);
  return placePage(build, grammar, place === START ? "" : place.toLowerCase().replace(/[^0-9a-f]/g, ""));
}

function show() {
  const { parts, filter } = parseAddress();
  const wasHere = !overview.hidden;
  if (!parts.length) {
    overview.hidden = false;
    detail.hidden = true;
    detail.replaceChildren();
    document.title = "llama-tracker";
    if (filter) setFilter(filter);
    if (!wasHere) comeBack();
    else if (filter) document.getElementById("matrix-title").scrollIntoView();
    return;
  }
  if (wasHere) left.scroll = window.scrollY;
  left.href = address(...parts.slice(0, 2));
  overview.hidden = true;
  detail.hidden = false;
  detail.replaceChildren(...pageFor(parts).filter(Boolean));
  document.title = `${parts.map(visible).join(" / ")} · llama-tracker`;
  window.scrollTo(0, 0);
  detail.querySelector("h1").focus({ preventScroll: true });
}

// Back where the reader was: the same scroll position, the cell that was opened last.
function comeBack() {
  window.scrollTo(0, left.scroll);
  const cell = [...matrix.table.querySelectorAll("a")].find((link) => link.getAttribute("href") === left.href);
  if (cell?.closest("td")) focusCell(cell);
  else cell?.focus();
}

function paintTheme(button) {
  const theme = document.documentElement.dataset.theme || "system";
  button.textContent = `Theme: ${theme}`;
}

function turnTheme(button) {
  const order = ["system", "light", "dark"];
  const next = order[(order.indexOf(document.documentElement.dataset.theme || "system") + 1) % order.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "system") localStorage.removeItem("llama-tracker-theme");
    else localStorage.setItem("llama-tracker-theme", next);
  } catch {
    // Not remembered, then.
  }
  paintTheme(button);
}

const themeButton = document.getElementById("theme");
themeButton.hidden = false;
paintTheme(themeButton);
themeButton.addEventListener("click", () => turnTheme(themeButton));
document.querySelector("[data-skip]").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main-content").focus();
});
buildMatrix();
setFilter(parseAddress().filter || {});
window.addEventListener("hashchange", show);
if (parseAddress().parts.length) show();
else if (parseAddress().filter) document.getElementById("matrix-title").scrollIntoView();
