// The matrix builds × grammars with its filter. One tab stop for all cells; arrow keys move between them.

const NO_FILTER = { watch: "", kind: "", cause: "", grammar: "", build: "", text: "", fold: "", affected: "" };
const FOLD_FROM = 13;
const matrix = { filter: { ...NO_FILTER }, root: document.getElementById("matrix"), table: null, status: null, form: null };

const distinct = (values) => [...new Set(values)].sort();
const allCounts = DATA.outcomes.flatMap((outcome) => outcome.counts);

function field(name, title, options) {
  const id = `filter-${name}`;
  const select = element("select", { id, name }, element("option", { value: "" }, "all"));
  for (const [value, text] of options) select.append(element("option", { value }, text));
  return element("div", { class: "field" }, element("label", { for: id }, title), select);
}

function checkbox(name, title) {
  const id = `filter-${name}`;
  return element("div", { class: "check" }, element("input", { type: "checkbox", id, name, value: "1" }), element("label", { for: id }, title));
}

function buildForm() {
  const same = (values) => values.map((value) => [value, value]);
  const form = element(
    "form",
    { class: "filter", role: "search", "aria-label": "Filter the matrix" },
    element(
      "div",
      { class: "field grow" },
      element("label", { for: "filter-text" }, "Text"),
      element("input", { type: "search", id: "filter-text", name: "text", placeholder: "name, rule text, or bytes: f0 84", autocomplete: "off", spellcheck: "false" }),
    ),
    element(
      "details",
      { open: matchMedia("(min-width: 40.01rem)").matches },
      element("summary", {}, "More filters"),
      element(
        "div",
        { class: "fields" },
        field("watch", "Watch", same(DATA.watches.filter((watch) => watch.audit === "grammar").map((watch) => watch.name))),
        field("cause", "Cause", same(distinct(allCounts.map((row) => row[1])))),
        field("kind", "Kind", same(distinct(allCounts.map((row) => row[0])))),
        field("grammar", "Grammar", same(DATA.grammars.map((grammar) => grammar.name))),
        field("build", "Build", SHOWN_BUILDS.map((index) => [DATA.builds[index].id, DATA.builds[index].id])),
        checkbox("affected", "Only grammars with deviations"),
        checkbox("fold", "Fold builds that agree"),
        element("button", { type: "reset", class: "quiet" }, "Reset"),
      ),
    ),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    for (const key of Object.keys(NO_FILTER)) {
      const control = form.elements[key];
      matrix.filter[key] = control.type === "checkbox" ? (control.checked ? "1" : "0") : control.value;
    }
    history.replaceState(null, "", filterAddress());
    drawMatrix();
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    setFilter({});
    history.replaceState(null, "", filterAddress());
  });
  return form;
}

const usual = (key) => (key === "fold" ? (DATA.builds.length >= FOLD_FROM ? "1" : "0") : key === "affected" ? "0" : "");

function filterAddress() {
  const set = Object.entries(matrix.filter).filter(([key, value]) => value !== usual(key));
  return set.length ? `#?${new URLSearchParams(set)}` : "#";
}

function setFilter(values) {
  for (const key of Object.keys(NO_FILTER)) {
    const control = matrix.form.elements[key];
    const value = values[key] ?? usual(key);
    if (control.type === "checkbox") control.checked = value === "1";
    else control.value = value;
    matrix.filter[key] = control.type === "checkbox" ? (control.checked ? "1" : "0") : control.value;
  }
  drawMatrix();
}

function textMatches(grammar, columns, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return true;
  if (DATA.grammars[grammar].name.toLowerCase().includes(wanted)) return true;
  const outcomes = new Set(columns.map((build) => outcomeOf(build, grammar)).filter(Boolean));
  const hex = wanted.replace(/\s+/g, "");
  const bytes = /^([0-9a-f]{2})+$/.test(hex) ? hex : null;
  for (const outcome of outcomes) {
    if (DATA.texts[outcome.text].toLowerCase().includes(wanted)) return true;
    if (bytes && outcome.deviations.some((number) => holdsBytes(number, bytes))) return true;
  }
  return false;
}

function holdsBytes(number, hex) {
  const [, , , prefix, , tokens] = DATA.deviations[number];
  const outputs = DATA.tokens[tokens][0].split(" ").map((token) => prefix + token);
  return outputs.some((output) => {
    let at = output.indexOf(hex);
    while (at > 0 && at % 2) at = output.indexOf(hex, at + 1);
    return at >= 0;
  });
}

function drawMatrix() {
  const { filter } = matrix;
  const watch = DATA.watches.find((candidate) => candidate.name === filter.watch);
  const columns = SHOWN_BUILDS.filter((index) => !filter.build || DATA.builds[index].id === filter.build);
  const rows = [...DATA.grammars.keys()].filter(
    (grammar) =>
      (!filter.grammar || DATA.grammars[grammar].name === filter.grammar) &&
      (!watch || watch.grammars.includes(grammar)) &&
      textMatches(grammar, columns, filter.text) &&
      (filter.affected !== "1" || columns.some((build) => judge(build, grammar, filter).count)),
  );
  const agreeing = (build) =>
    filter.fold === "1" && DATA.builds[build].tested
      ? `${DATA.builds[build].audit_version} ${DATA.builds[build].placed} ${rows.map((grammar) => DATA.builds[build].cells[grammar])}`
      : `build ${build}`;
  const runs = neighbours(columns, agreeing);
  const focused = document.activeElement?.closest?.("td a")?.getAttribute("href");
  matrix.table.replaceChildren(
    element("caption", { class: "hidden" }, "Deviations by grammar and build, newest build first"),
    matrixHead(runs),
    ...GROUPS.map(([title, has]) => [title, rows.filter((grammar) => has(DATA.grammars[grammar]))])
      .filter(([, members]) => members.length)
      .map(([title, members]) => matrixGroup(title, members, runs)),
  );
  const cells = [...matrix.table.querySelectorAll("td a")];
  const current = cells.find((cell) => cell.getAttribute("href") === focused) || cells[0];
  if (current) current.tabIndex = 0;
  if (focused && current) current.focus({ preventScroll: true });
  const sum = runs.length ? rows.reduce((total, grammar) => total + judge(runs[0].items[0], grammar, filter).count, 0) : 0;
  matrix.status.textContent = rows.length
    ? `${rows.length} of ${plural(DATA.grammars.length, "grammar")}, ${columns.length} of ${plural(DATA.builds.length, "build")}` +
      (runs.length < columns.length ? ` in ${plural(runs.length, "column")}` : "") +
      (columns.length ? `; ${plural(sum, "deviation")} shown for ${DATA.builds[columns[0]].id}.` : ".")
    : "Nothing matches the filter.";
}

function matrixHead(runs) {
  const heads = runs.map(({ items }) => {
    const [newest, oldest] = [DATA.builds[items[0]], DATA.builds[items.at(-1)]];
    const folded = items.length > 1;
    const under = [newest.number ? `b${newest.number}` : "", newest.date].filter(Boolean);
    return element(
      "th",
      { scope: "col", class: newest.tested ? null : "untested" },
      element("a", { class: "plain", href: address(newest.id), title: newest.id }, label(newest)),
      folded
        ? element("span", { class: "under" }, `to ${label(oldest)}`, element("br"), `${items.length} builds agree`)
        : element("span", { class: "under" }, ...under.flatMap((text) => [text, element("br")]), newest.tested ? "" : "? untestable"),
    );
  });
  const causes = causesShown(runs) ? element("th", { scope: "col", class: "causes" }, `Causes in ${label(DATA.builds[runs[0].items[0]])}`) : "";
  return element("thead", {}, element("tr", {}, element("th", { scope: "col", class: "corner" }, "Grammar"), heads, causes));
}

// With few builds there is room to say why, and not only how often.
const causesShown = (runs) => runs.length > 0 && runs.length <= 7;

function causesCell(build, grammar) {
  const outcome = outcomeOf(build, grammar);
  const sums = new Map();
  for (const [kind, cause, mid, count] of outcome ? outcome.counts : []) {
    if (lets(matrix.filter, kind, cause, mid)) sums.set(cause, (sums.get(cause) || 0) + count);
  }
  const largest = [...sums].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
  return element("td", { class: "causes" }, largest.map(([cause, count]) => `${NEWS.has(cause) ? "▲ " : ""}${cause}\u00a0${count.toLocaleString("en")}`).join(" · "));
}

function matrixGroup(title, grammars, runs) {
  const body = element("tbody", {}, element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: runs.length + 1 + Number(causesShown(runs)) }, element("span", {}, title))));
  for (const grammar of grammars) {
    const row = element("tr", {}, element("th", { scope: "row", title: DATA.grammars[grammar].name }, visible(DATA.grammars[grammar].name)));
    for (const { items } of runs) row.append(matrixCell(items[0], grammar));
    if (causesShown(runs)) row.append(causesCell(runs[0].items[0], grammar));
    body.append(row);
  }
  return body;
}

function matrixCell(build, grammar) {
  const found = judge(build, grammar, matrix.filter);
  const name = DATA.grammars[grammar].name;
  if (found.state === "none") return element("td", { class: "none" }, element("span", { title: found.words }, "·", element("span", { class: "hidden" }, " not audited")));
  const whose = `${name} on ${label(DATA.builds[build])}`;
  const link = element(
    "a",
    { href: address(DATA.builds[build].id, name), tabindex: "-1", title: `${DATA.builds[build].id}: ${found.words}` },
    found.glyph ? element("span", { "aria-hidden": "true" }, found.glyph) : "",
    found.count ? `${found.glyph ? " " : ""}${short(found.count)}` : "",
    element("span", { class: "hidden" }, ` ${found.spoken}, ${whose}`),
  );
  return element("td", { class: found.state + (found.level ? ` level${found.level}` : "") }, link);
}

function moveInMatrix(event) {
  const link = event.target.closest("td a");
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };
  if (!link || !steps[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const lines = [...matrix.table.querySelectorAll("tbody tr:not(.group)")].map((row) => [...row.cells].map((cell) => cell.querySelector("a")));
  let y = lines.findIndex((line) => line.includes(link));
  let x = lines[y].indexOf(link);
  const [down, right] = steps[event.key];
  if (!Number.isFinite(right)) {
    const stops = lines[y].filter(Boolean);
    focusCell(right < 0 ? stops.find((stop) => stop.closest("td")) : stops.at(-1));
    return;
  }
  do {
    y += down;
    x += right;
  } while (lines[y]?.[x] === null && x > 0);
  const next = lines[y]?.[x];
  if (next && next.closest("td")) focusCell(next);
}

function focusCell(link) {
  for (const other of matrix.table.querySelectorAll('td a[tabindex="0"]')) other.tabIndex = -1;
  link.tabIndex = 0;
  link.focus();
}

function buildMatrix() {
  matrix.form = buildForm();
  matrix.status = element("output", { class: "soft", for: Object.keys(NO_FILTER).map((key) => `filter-${key}`).join(" ") });
  matrix.table = element("table", { class: "matrix", "aria-describedby": "matrix-keys" });
  matrix.table.addEventListener("keydown", moveInMatrix);
  matrix.table.addEventListener("focusin", (event) => {
    const link = event.target.closest("td a");
    if (link && link.tabIndex !== 0) focusCell(link);
  });
  const legend = [
    ["clean", "✓", "no deviation"],
    ["read", "○", "text read as it should be, no state compared"],
    ["found level1", "1–9", "deviations"],
    ["found level4", "≥ 1,000", ""],
    ["news", "▲", "with a cause that is news"],
    ["dead", "✕", "the library died"],
    ["unknown", "?", "untestable"],
    ["none", "·", "not audited"],
  ];
  matrix.root.append(
    matrix.form,
    matrix.status,
    element("div", { class: "scroll", role: "region", "aria-label": "Matrix" }, matrix.table),
    element("ul", { class: "legend", "aria-label": "Legend" }, legend.map(([state, glyph, words]) => element("li", {}, element("span", { class: `chip ${state}` }, glyph), words ? ` ${words}` : ""))),
    element("p", { class: "soft small", id: "matrix-keys" }, "Tab enters the table once; arrow keys, Home and End move between its cells; Enter opens one."),
  );
  if (DATA.omitted) {
    matrix.root.append(element("p", { class: "soft small" }, `To keep this page small, ${plural(DATA.omitted, "deviation")} of older builds are counted and not described; data/ has them all.`));
  }
}
