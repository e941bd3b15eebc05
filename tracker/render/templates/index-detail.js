// The pages behind the matrix: a build, and a grammar on a build.

const START = "start";
const MANY_BYTES = 40;
const AT_A_PLACE = new Set(["UNSOUND", "OVER_RESTRICTIVE", "EOS_UNSOUND", "EOS_MISSING"]);

// -- bytes ---------------------------------------------------------------------------------------------------

// A row of bytes; `from` marks where a token begins behind the output so far.
function bytesView(bytes, from = bytes.length) {
  const { offence, offset } = scan(bytes);
  const skipped = bytes.length > MANY_BYTES ? Math.max(0, Math.min(from, bytes.length - 8) - 16) : 0;
  const view = element("span", { class: "bytes" });
  if (skipped) view.append(element("span", { class: "soft" }, `${skipped.toLocaleString("en")} bytes … `));
  const end = Math.min(bytes.length, skipped + MANY_BYTES);
  for (const sequence of sequences(bytes)) {
    for (let index = 0; index < sequence.bytes.length; index++) {
      const at = sequence.start + index;
      if (at < skipped || at >= end) continue;
      const byte = sequence.bytes[index];
      const role = byte < 0x80 ? "ascii" : index ? "continuation" : sequence.length > 1 ? "lead" : "odd";
      const classes = ["byte", role, at >= from ? "new" : "", offence && at === offset ? "offence" : ""];
      view.append(element("span", { class: classes.filter(Boolean).join(" "), title: byteRole(sequence, index) }, hexOf(byte)), " ");
    }
  }
  if (end < bytes.length) view.append(element("span", { class: "soft" }, `… ${plural(bytes.length - end, "byte")}`));
  if (!bytes.length) view.append(element("span", { class: "soft" }, "(start)"));
  return view;
}

function textOf(bytes) {
  const text = sequences(bytes)
    .map((s) => (s.well ? visible(String.fromCodePoint(s.value)) : s.bytes.map((byte) => `‹${hexOf(byte)}›`).join("")))
    .join("");
  return text.length > 80 ? `…${text.slice(-80)}` : text;
}

function rangesText(ranges) {
  return ranges ? ranges.toUpperCase().replaceAll("-", "–").split(" ").join(", ") : "none";
}

const bitsView = (byte) => {
  const bits = byte.toString(2).padStart(8, "0");
  const cut = markerBits(byte);
  return element("code", { class: "bits" }, element("span", { class: "marker" }, bits.slice(0, cut)), bits.slice(cut));
};

// -- small parts ---------------------------------------------------------------------------------------------

function facts(pairs) {
  return element("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== "" && value !== undefined).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

// Counts [[kind, cause, inside a code point, count]]: one group a kind, the causes behind it.
function kindsView(counts) {
  const kinds = distinct(counts.map((row) => row[0]));
  return element("ul", { class: "kinds" }, kinds.map((kind) => {
    const rows = counts.filter((row) => row[0] === kind);
    const news = rows.some((row) => NEWS.has(row[1]));
    const state = news ? "news" : DEATHS.has(kind) ? "dead" : "found level2";
    const causes = distinct(rows.map((row) => row[1]));
    return element(
      "li",
      {},
      element("span", { class: `chip ${state}`, title: DATA.kinds[kind] || kind }, `${news ? "▲ " : DEATHS.has(kind) ? "✕ " : ""}${kind}`),
      " ",
      causes.flatMap((cause, position) => {
        const count = rows.filter((row) => row[1] === cause).reduce((sum, row) => sum + row[3], 0);
        const text = element("span", { title: DATA.causes[cause] || cause }, `${cause}\u00a0${count.toLocaleString("en")}`);
        return position ? [" · ", text] : [text];
      }),
    );
  }));
}

// Roles are named, since a narrow screen lays rows out as blocks, which would take them away.
function table(name, heads, rows) {
  const made = element(
    "table",
    { class: "list", role: "table" },
    element("caption", { class: "hidden" }, name),
    element("thead", { role: "rowgroup" }, element("tr", {}, heads.map((head) => element("th", { scope: "col", role: "columnheader" }, head)))),
    element("tbody", { role: "rowgroup" }, rows),
  );
  for (const row of made.rows) {
    row.setAttribute("role", "row");
    for (const cell of row.cells) {
      if (!cell.hasAttribute("role")) cell.setAttribute("role", cell.scope === "row" ? "rowheader" : "cell");
    }
  }
  return element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": name }, made);
}

function trail(...steps) {
  const list = [["Overview", filterAddress(), { "data-back": true }], ...steps];
  return element(
    "nav",
    { "aria-label": "Where you are", class: "trail" },
    element("ol", {}, list.map(([text, href, more]) => element("li", {}, href ? element("a", { href, ...more }, text) : element("span", { "aria-current": "page" }, text)))),
  );
}

function changeLine(change) {
  const words = `became-${change.what.replaceAll(" ", "-")}`;
  const samples = change.samples.map(([sign, where, detail]) => {
    const [output, token] = [bytesOf(where), bytesOf(detail)];
    return element("li", {}, sign === "+" ? "added: " : "gone: ", bytesView([...output, ...token], output.length));
  });
  return element(
    "li",
    {},
    element("span", { class: `state ${words}` }, change.what),
    " ",
    change.subject ? element("a", { class: "plain", href: address(change.build, change.subject) }, visible(change.subject)) : "the whole build",
    change.kind ? element("span", {}, " ", element("code", {}, change.kind), " ", element("span", { class: "soft" }, change.cause)) : "",
    change.earlier ? element("span", { class: "soft" }, ` against ${change.earlier}`) : "",
    change.added ? `, +${change.added.toLocaleString("en")}` : "",
    change.removed ? `, −${change.removed.toLocaleString("en")}` : "",
    change.reason ? `: ${change.reason}` : "",
    samples.length ? element("ul", { class: "samples" }, samples) : "",
  );
}

// -- a build -------------------------------------------------------------------------------------------------

function buildPage(index) {
  const build = DATA.builds[index];
  const affected = [...DATA.grammars.keys()].filter((grammar) => judge(index, grammar).count);
  const quiet = [...DATA.grammars.keys()].filter((grammar) => outcomeOf(index, grammar) && !judge(index, grammar).count);
  const position = SHOWN_BUILDS.indexOf(index);
  const step = (offset, text, rel) => {
    const other = DATA.builds[SHOWN_BUILDS[position + offset]];
    return other ? element("a", { class: "button", rel, href: address(other.id) }, text, element("span", { class: "soft" }, ` ${label(other)}`)) : "";
  };
  return [
    trail([build.id, ""]),
    element("h1", { tabindex: "-1" }, build.id),
    element("p", { class: "steps" }, step(1, "← older", "prev"), step(-1, "newer →", "next")),
    build.tested ? "" : element("p", { class: "banner" }, element("strong", {}, "? Untestable: "), `${build.reason}. Nothing is known of this build.`),
    build.placed ? "" : element("p", { class: "banner" }, "Not part of the history: ", build.patch ? `patched with ${build.patch}.` : "it has no date."),
    facts([
      ["Upstream commit", build.commit ? element("code", {}, build.commit.slice(0, 12)) : ""],
      ["Build number", build.number ? `b${build.number}` : ""],
      [build.date_of === "upload" ? "Uploaded" : "Committed", build.date],
      ["Source sha256", build.source ? element("code", { title: build.source }, build.source.slice(0, 16)) : ""],
      ["Audit version", element("code", {}, build.audit_version)],
      ["Watches", element("ul", { class: "inline" }, DATA.watches.filter((watch) => watch.verdicts[build.id]).map((watch) => element("li", {}, element("code", {}, watch.name), ` ${watch.verdicts[build.id]}`)))],
    ]),
    ...(build.changes.length
      ? [
          element("h2", {}, build.earlier ? `What changed since ${build.earlier}` : "What changed"),
          element("ul", { class: "changes" }, build.changes.map(changeLine)),
          build.changes_omitted ? element("p", { class: "soft" }, `and ${plural(build.changes_omitted, "change")} more.`) : "",
        ]
      : []),
    ...(affected.length
      ? [
          element("h2", {}, `${plural(affected.length, "grammar")} with deviations`),
          table("Grammars with deviations", ["Grammar", "Deviations", "Kinds and causes"], affected.map((grammar) => {
            const outcome = outcomeOf(index, grammar);
            return element(
              "tr",
              {},
              element("th", { scope: "row", class: "name" }, element("a", { href: address(build.id, DATA.grammars[grammar].name) }, visible(DATA.grammars[grammar].name))),
              element("td", { class: "num" }, judge(index, grammar).count.toLocaleString("en")),
              element("td", {}, kindsView(outcome.counts)),
            );
          })),
        ]
      : []),
    ...(quiet.length
      ? [
          element("h2", {}, `${plural(quiet.length, "grammar")} without`),
          element("ul", { class: "inline dots" }, quiet.map((grammar) => element("li", {}, element("a", { href: address(build.id, DATA.grammars[grammar].name), title: judge(index, grammar).words }, visible(DATA.grammars[grammar].name))))),
        ]
      : []),
    ...(build.controls.length
      ? [
          element("h2", {}, "Controls"),
          element("ul", { class: "changes" }, build.controls.map((number) => {
            const [name, passed, detail] = DATA.controls[number];
            return element("li", {}, element("span", { class: `state ${passed ? "absent" : "present"}` }, passed ? "✓ passed" : "✕ failed"), ` ${name}: `, element("span", { class: "soft" }, detail));
          })),
        ]
      : []),
  ];
}

// -- a grammar on a build ------------------------------------------------------------------------------------

function acrossBuilds(index, grammar, prefix) {
  const runs = neighbours(SHOWN_BUILDS, (build) => (DATA.builds[build].tested ? DATA.builds[build].cells[grammar] : `? ${DATA.builds[build].reason}`));
  return element(
    "nav",
    { class: "across", "aria-label": "The same grammar on other builds" },
    element("ul", {}, runs.map(({ items }) => {
      const found = judge(items[0], grammar);
      const here = items.includes(index);
      const [newest, oldest] = [DATA.builds[items[0]], DATA.builds[items.at(-1)]];
      const name = items.length > 1 ? `${label(newest)} … ${label(oldest)} (${items.length})` : label(newest);
      return element(
        "li",
        {},
        element(
          "a",
          { href: address(newest.id, DATA.grammars[grammar].name, ...(prefix === null ? [] : [prefix || START])), "aria-current": here ? "true" : null, title: found.words },
          element("span", { class: `chip ${found.state}${found.level ? ` level${found.level}` : ""}` }, found.glyph, found.count ? `${found.glyph ? " " : ""}${short(found.count)}` : ""),
          ` ${name}`,
        ),
      );
    })),
  );
}

function grammarPage(index, grammar) {
  const build = DATA.builds[index];
  const name = DATA.grammars[grammar].name;
  const outcome = outcomeOf(index, grammar);
  const head = [trail([build.id, address(build.id)], [visible(name), ""]), element("h1", { tabindex: "-1" }, visible(name), element("span", { class: "of" }, ` on ${build.id}`)), acrossBuilds(index, grammar, null)];
  if (!outcome) return [...head, element("p", { class: "banner" }, build.tested ? "This build was not audited with this grammar." : `Untestable: ${build.reason}.`)];
  const found = outcome.deviations.map(deviationOf);
  const places = Map.groupBy ? Map.groupBy(found, (d) => d.prefix) : grouped(found);
  const coverage = outcome.positions ? `${outcome.reached} of ${outcome.positions} positions of the grammar reached` : "";
  return [
    ...head,
    outcome.status === "complete" ? "" : element("p", { class: "banner" }, element("strong", {}, "? Untestable: "), outcome.reason),
    kindsView(outcome.counts),
    grammarView(outcome),
    facts([
      ["Compared", outcome.status === "complete" ? plural(outcome.states, "state") : ""],
      ["How far", !outcome.states ? "" : outcome.exhaustive ? "exhaustive: every state reachable at a token boundary, a proof for this vocabulary and build" : `${plural(outcome.left, "state")} seen and left${outcome.bound ? `; stopped by: ${outcome.bound}` : ""}`],
      ["Coverage", coverage],
      ["Tokens right at the start", outcome.start_tokens === null ? "" : outcome.start_tokens.toLocaleString("en")],
    ]),
    outcome.notes.length ? element("ul", { class: "notes" }, outcome.notes.map((note) => element("li", {}, note))) : "",
    ...(found.length
      ? [
          element("h2", {}, plural(places.size, "place"), " where it deviates"),
          table("Places where it deviates", ["Output so far", "As text", "What is wrong", "Leads to"], [...places].map(([prefix, here]) => placeRow(build, name, prefix, here))),
        ]
      : outcome.status === "complete" && !outcome.omitted
        ? [element("p", { class: "good" }, element("span", { class: "state absent" }, outcome.states ? "✓ no deviation" : "○ read as it should be"), ` ${judge(index, grammar).words}.`)]
        : []),
    outcome.omitted ? element("p", { class: "soft" }, `${plural(outcome.omitted, "more place and kind")} counted above and not described here, to keep this page small; data/${build.id}/ has them.`) : "",
  ];
}

function grouped(deviations) {
  const groups = new Map();
  for (const deviation of deviations) groups.set(deviation.prefix, [...(groups.get(deviation.prefix) || []), deviation]);
  return groups;
}

function grammarView(outcome) {
  return element("pre", { class: "grammar", role: "region", tabindex: "0", "aria-label": "The grammar’s text" }, element("code", {}, shownText(DATA.texts[outcome.text])));
}

// Line ends and tabs are obeyed, every other control is named.
const shownText = (text) => text.replace(/[^\n\t]+/g, visible);

function placeRow(build, name, prefix, here) {
  const bytes = bytesOf(prefix);
  const outcomes = distinct(here.map((deviation) => (deviation.escape ? escapeWords(deviation.escape) : deviation.detail)).filter(Boolean));
  return element(
    "tr",
    {},
    element("th", { scope: "row", class: "name" }, element("a", { class: "plain", href: address(build.id, name, prefix || START) }, bytesView(bytes))),
    element("td", { class: "text" }, textOf(bytes)),
    element("td", {}, kindsView(here.map((deviation) => [deviation.kind, deviation.cause, deviation.mid, Math.max(1, deviation.count)]))),
    element("td", { class: "soft" }, outcomes.join("; ")),
  );
}

function escapeWords([outcome, , , wellFormed]) {
  switch (outcome) {
    case "end-of-generation":
      return wellFormed ? "reported complete, not in the language" : "reported complete, ill-formed UTF-8";
    case "dead-end":
      return "a dead end: every continuation is refused";
    case "viable-again":
      return "output that is viable again";
    default:
      return "not followed to its end (bound reached)";
  }
}
