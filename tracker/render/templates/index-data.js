// The embedded results, and questions to them. Nothing in here touches the page but for `element`.

const DATA = JSON.parse(document.getElementById("data").textContent);

const NEWS = new Set(DATA.news);
const DEATHS = new Set(["CRASH", "HANG", "OOM"]);
const GROUPS = [
  ["The published eight", (grammar) => grammar.published],
  ["Corpus", (grammar) => !grammar.published && grammar.origin === "corpus"],
  ["From each build’s source tree", (grammar) => grammar.origin === "source-tree"],
  ["Other files", (grammar) => !grammar.published && grammar.origin === "file"],
];

const deviationOf = (number) => {
  const [kind, cause, mid, prefix, path, tokens, count, escape, detail] = DATA.deviations[number];
  const [shown, ids] = DATA.tokens[tokens];
  return {
    kind,
    cause,
    mid: Boolean(mid),
    prefix,
    path: path ? path.split(" ") : [],
    tokens: count ? shown.split(" ") : [],
    ids: ids ? ids.split(" ") : [],
    count,
    escape: escape < 0 ? null : DATA.escapes[escape],
    detail,
  };
};

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const short = (count) => (count < 10000 ? count.toLocaleString("en") : `${(count / 1000).toFixed(count < 99950 ? 1 : 0)}k`);
const oneChannel = new Set(DATA.builds.map((build) => build.channel)).size < 2;
const label = (build) => {
  const version = /^[0-9a-f]{12,}$/.test(build.version) ? build.version.slice(0, 10) : build.version;
  return (oneChannel ? version : `${build.channel} ${version}`) + (build.patch ? ` + ${build.patch}` : "");
};
const buildNamed = (id) => DATA.builds.findIndex((build) => build.id === id);
const grammarNamed = (name) => DATA.grammars.findIndex((grammar) => grammar.name === name);
const outcomeOf = (build, grammar) => {
  const cell = DATA.builds[build].cells[grammar];
  return cell < 0 ? null : DATA.outcomes[cell];
};
const address = (...parts) => "#" + parts.map((part) => encodeURIComponent(part)).join("/");

// Oldest first in the data; shown newest first, builds without a place in time last.
const SHOWN_BUILDS = [
  ...[...DATA.builds.keys()].filter((index) => DATA.builds[index].placed).reverse(),
  ...[...DATA.builds.keys()].filter((index) => !DATA.builds[index].placed),
];

// Does a filter let this kind, cause and standing through?
function lets(filter, kind, cause, mid) {
  const watch = DATA.watches.find((candidate) => candidate.name === filter.watch);
  return (
    (!filter.kind || filter.kind === kind) &&
    (!filter.cause || filter.cause === cause) &&
    (!watch ||
      ((!watch.kinds.length || watch.kinds.includes(kind)) &&
        (!watch.causes.length || watch.causes.includes(cause)) &&
        (watch.mid === null || watch.mid === Boolean(mid))))
  );
}

// What a cell says: {state, glyph, count, words, spoken}; `words` is all of it, `spoken` what the glyph or the
// number does not say. States: none, unknown, clean, read, found (with level 1–4), dead, news.
function judge(build, grammar, filter = {}) {
  const outcome = outcomeOf(build, grammar);
  const untestable = !DATA.builds[build].tested ? DATA.builds[build].reason : outcome && outcome.status !== "complete" ? outcome.reason : null;
  if (untestable !== null) return { state: "unknown", glyph: "?", count: 0, words: `untestable: ${untestable}`, spoken: "untestable" };
  if (!outcome) return { state: "none", glyph: "·", count: 0, words: "not audited", spoken: "not audited" };
  const counts = outcome.counts.filter(([kind, cause, mid]) => lets(filter, kind, cause, mid));
  const count = counts.reduce((sum, row) => sum + row[3], 0);
  if (!count && outcome.states) {
    const all = outcome.exhaustive ? ", all there are" : "";
    return { state: "clean", glyph: "✓", count, words: `no deviation; ${plural(outcome.states, "state")} compared${all}`, spoken: "no deviation" };
  }
  if (!count) {
    const spoken = "no deviation, no state compared";
    return { state: "read", glyph: "○", count, words: "no deviation; no state compared: only how its text is read", spoken };
  }
  const words = `${plural(count, "deviation")}: ${counts.map(([k, c, , n]) => `${k} ${c} ${n.toLocaleString("en")}`).join(", ")}`;
  const noun = count === 1 ? "deviation" : "deviations";
  if (counts.some((row) => NEWS.has(row[1]))) return { state: "news", glyph: "▲", count, words, spoken: `${noun}, with a cause that is news` };
  if (counts.some((row) => DEATHS.has(row[0]))) return { state: "dead", glyph: "✕", count, words, spoken: `${noun}, the library died` };
  return { state: "found", glyph: "", count, words, spoken: noun, level: Math.min(4, 1 + Math.floor(Math.log10(count))) };
}

// Runs of neighbours in a list that agree: [{items, key}].
function neighbours(items, keyOf) {
  const runs = [];
  for (const item of items) {
    const key = keyOf(item);
    if (runs.length && runs.at(-1).key === key) runs.at(-1).items.push(item);
    else runs.push({ key, items: [item] });
  }
  return runs;
}

// An element; children are text unless they are elements. Text is never read as HTML.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}
