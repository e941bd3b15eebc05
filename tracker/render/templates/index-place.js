// The page of a place: what is right after an output, what the build does, and each byte of it explained.

function placePage(index, grammar, prefix) {
  const build = DATA.builds[index];
  const name = DATA.grammars[grammar].name;
  const outcome = outcomeOf(index, grammar);
  const here = (outcome ? outcome.deviations : []).map(deviationOf).filter((deviation) => deviation.prefix === prefix);
  const bytes = bytesOf(prefix);
  const place = bytes.length ? hexLine(bytes.slice(-12)) : "start";
  const head = [
    trail([build.id, address(build.id)], [visible(name), address(build.id, name)], [`${bytes.length > 12 ? "… " : ""}${place}`, ""]),
    element("h1", { tabindex: "-1" }, bytes.length ? "After " : "At the start", bytes.length ? bytesView(bytes) : "", element("span", { class: "of" }, ` in ${visible(name)} on ${build.id}`)),
    acrossBuilds(index, grammar, prefix),
  ];
  if (!here.length) return [...head, element("p", { class: "banner" }, outcome?.omitted ? "If this build deviates here, this page does not describe it (see its limits); data/ does." : "No deviation is recorded at this place.")];
  const right = DATA.right[outcome.text]?.[prefix];
  const brief = DATA.texts[outcome.text].split("\n").length <= 6 && DATA.texts[outcome.text].length < 400;
  const standingHere = here.some((deviation) => AT_A_PLACE.has(deviation.kind));
  return [
    ...head,
    brief ? grammarView(outcome) : "",
    ...(standingHere ? rightView(bytes, right, here) : []),
    ...here.map((deviation) => deviationSection(deviation, bytes)),
    ...(brief ? [] : [element("details", { class: "source" }, element("summary", {}, "The grammar"), grammarView(outcome))]),
  ];
}

// What is right at a place, and what the build does instead, byte for byte.
function rightView(bytes, right, here) {
  const firsts = (kind) => distinct(here.filter((d) => d.kind === kind).flatMap((d) => d.tokens.map((token) => token.slice(0, 2))));
  const may = !right ? "" : !right[2] ? "No string of the grammar begins with this output: nothing may follow, and it may not end." : right[1] ? "The output may end here." : "The output may not end here.";
  const build = [
    ["also allows tokens that begin with", firsts("UNSOUND")],
    ["masks tokens that begin with", firsts("OVER_RESTRICTIVE")],
  ].filter(([, list]) => list.length);
  const ends = here.some((d) => d.kind === "EOS_UNSOUND") ? "lets the output end here" : here.some((d) => d.kind === "EOS_MISSING") ? "does not let the output end here" : "";
  return [
    element("p", {}, "The output stands ", standing(bytes), ".", bytes.length ? element("span", {}, " As text: ", element("span", { class: "text" }, textOf(bytes))) : "", here[0].path.length ? element("span", { class: "soft" }, ` Token ids: ${here[0].path.slice(-12).join(" ")}${here[0].path.length > 12 ? " (the last 12)" : ""}.`) : ""),
    element(
      "div",
      { class: "versus" },
      element("div", { class: "right" }, element("h2", {}, "✓ Right here"), right ? element("p", {}, right[2] ? ["Next byte: ", element("code", {}, rangesText(right[0])), ". "] : "", may) : element("p", { class: "soft" }, "Not worked out for this page: the oracle needs a vocabulary for it.")),
      element(
        "div",
        { class: "wrong" },
        element("h2", {}, "✕ The build"),
        build.map(([words, list]) => element("p", {}, `${words} `, element("code", {}, runsOfBytes(list)))),
        ends ? element("p", {}, ends) : "",
      ),
    ),
  ];
}

// ["80", "81", "82", "84"] as "80–82, 84".
function runsOfBytes(pairs) {
  const runs = [];
  for (const byte of pairs.map((pair) => parseInt(pair, 16)).sort((a, b) => a - b)) {
    if (runs.length && runs.at(-1)[1] === byte - 1) runs.at(-1)[1] = byte;
    else runs.push([byte, byte]);
  }
  return runs.map(([low, high]) => (low === high ? hexOf(low) : `${hexOf(low)}–${hexOf(high)}`)).join(", ");
}

function deviationSection(deviation, prefix) {
  const news = NEWS.has(deviation.cause);
  const section = element(
    "section",
    { class: "deviation" },
    element("h2", {}, news ? "▲ " : "", element("code", {}, deviation.kind), " ", deviation.cause, deviation.count ? element("span", { class: "of" }, ` ${plural(deviation.count, "token")}`) : ""),
    element("p", {}, `${sentenceFor(deviation)}`, deviation.mid ? " It belongs to the matching of partial code points (llama_grammar_match_partial_char)." : ""),
  );
  if (deviation.detail) section.append(element("p", {}, "Seen: ", element("code", {}, visible(deviation.detail))));
  if (deviation.kind === "EOS_UNSOUND" && prefix.length) section.append(bytesTable("The output that is reported complete", prefix, prefix.length, deviation.path));
  if (deviation.count) section.append(tokensTable(deviation, prefix));
  if (deviation.escape) section.append(...escapeView(deviation.escape, prefix));
  return section;
}

function sentenceFor({ kind, cause, count }) {
  const who = count === 1 ? "The token is " : count ? "These tokens are " : kind.startsWith("EOS") ? "The output " : "";
  const text = `${who}${DATA.kinds[kind] || kind}: ${DATA.causes[cause] || cause}.`;
  return text[0].toUpperCase() + text.slice(1);
}

function tokensTable(deviation, prefix) {
  const masked = deviation.kind === "OVER_RESTRICTIVE";
  const rows = deviation.tokens.map((token, position) => {
    const own = bytesOf(token);
    const output = [...prefix, ...own];
    const why = masked ? `then ${standing(output)}` : ruleBroken(output) || "Well-formed, and no string of the grammar begins so.";
    return element(
      "tr",
      {},
      element("td", { class: "id" }, deviation.ids[position] ?? ""),
      element("th", { scope: "row" }, bytesView(output, prefix.length)),
      element("td", { class: "text" }, textOf(output)),
      element("td", { class: "why" }, why),
    );
  });
  const rest = deviation.count - deviation.tokens.length;
  return element(
    "div",
    {},
    table(masked ? "Tokens that are masked" : "Tokens that are allowed", ["Token", "Output and token", "As text", masked ? "With it the output stands" : "Which rule it breaks"], rows),
    rest > 0 ? element("p", { class: "soft" }, `The first ${deviation.tokens.length} of ${plural(deviation.count, "token")}; data/ has them all.`) : "",
  );
}

function escapeView(escape, prefix) {
  const [outcome, output, path, , explored] = escape;
  const bytes = bytesOf(output);
  const end = outcome === "end-of-generation" ? " There the build allows end of generation." : "";
  return [
    element("h3", {}, "Following only what the build allows"),
    element("p", {}, `It leads to ${outcome === "end-of-generation" ? "an output that is " : ""}${escapeWords(escape)}.${end} `, element("span", { class: "soft" }, `${plural(explored, "state")} explored.`)),
    bytesTable("The way, byte by byte", bytes, prefix.length, path ? path.split(" ") : []),
  ];
}

// Bytes one a row: bits, role, and where they stop being UTF-8.
function bytesTable(name, bytes, from, path) {
  const broken = scan(bytes);
  const all = sequences(bytes);
  const first = Math.max(0, Math.min(from, broken.offence ? broken.offset : from) - 12);
  const rows = [];
  if (first) rows.push(element("tr", {}, element("td", { colspan: "5", class: "soft" }, `${plural(first, "byte")} before`)));
  for (const sequence of all) {
    sequence.bytes.forEach((byte, index) => {
      const at = sequence.start + index;
      if (at < first) return;
      const last = index === sequence.bytes.length - 1;
      const spells = !last || sequence.length < 2 || sequence.value === null ? "" : sequence.well ? `= ${characterName(sequence.value)}` : `bits spell ${characterName(sequence.value)}`;
      const fault = broken.offence && at === broken.offset;
      rows.push(
        element(
          "tr",
          { class: at < from ? "before" : null },
          element("td", { class: "id" }, String(at + 1)),
          element("th", { scope: "row" }, element("span", { class: `byte ${byte < 0x80 ? "ascii" : index ? "continuation" : "lead"}${fault ? " offence" : ""}` }, hexOf(byte))),
          element("td", {}, bitsView(byte)),
          element("td", {}, byteRole(sequence, index), spells ? element("span", { class: "spells" }, ` ${spells}`) : ""),
          element("td", { class: "why" }, fault ? element("strong", {}, `✕ ${broken.offence}: `) : "", fault ? ruleBroken(bytes) : ""),
        ),
      );
    });
  }
  return element(
    "div",
    {},
    table(name, ["#", "Byte", "Bits", "What it is", "Where it breaks"], rows),
    path.length ? element("p", { class: "soft small" }, "Token ids: ", element("code", {}, path.join(" "))) : "",
  );
}
