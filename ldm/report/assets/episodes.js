"use strict";
/* Lists: episodes with filters, and the tuples with what came of them. */

async function episodesView(values) {
  const { runs, entries } = report;
  const outcomes = [...new Set(entries.map((one) => one.outcome))].sort();
  const kinds = [...new Set(entries.map((one) => one.kind))].sort();
  const agents = [...new Set(runs.map((run) => run.agent).filter(Boolean))].sort();
  const box = el("div", { id: "results" });
  const search = el("input", {
    type: "search",
    name: "q",
    placeholder: "goal or task",
    value: values.q || "",
    input: changed,
  });
  const tuple = el("input", {
    type: "search",
    name: "tuple",
    placeholder: "id",
    value: values.tuple || "",
    input: changed,
    class: "mono",
  });
  const choices = {
    run: select(
      "run",
      runs.map((run) => [run.id, run.label]),
      values.run,
    ),
    outcome: select(
      "outcome",
      outcomes.map((one) => [one, one]),
      values.outcome,
    ),
    kind: select(
      "kind",
      kinds.map((one) => [one, one]),
      values.kind,
    ),
    agent: select(
      "agent",
      agents.map((one) => [one, one]),
      values.agent,
    ),
  };
  const fields = [labelled("search", search)];
  if (runs.length > 1) fields.push(labelled("run", choices.run));
  fields.push(labelled("outcome", choices.outcome));
  if (kinds.length > 1) fields.push(labelled("kind", choices.kind));
  if (agents.length > 1) fields.push(labelled("agent", choices.agent));
  if (report.tupleCount) fields.push(labelled("used tuple", tuple));
  const form = el(
    "form",
    { class: "filters", role: "search", submit: (event) => event.preventDefault() },
    fields,
  );

  function select(name, options, chosen) {
    return el(
      "select",
      { name, change: changed },
      el("option", { value: "" }, "any"),
      options.map(([value, title]) =>
        el("option", { value, selected: value === chosen }, visible(title)),
      ),
    );
  }
  function present() {
    const chosen = { q: search.value.trim(), tuple: tuple.value.trim() };
    for (const [name, field] of Object.entries(choices)) chosen[name] = field.value;
    return chosen;
  }
  function changed() {
    history.replaceState(null, "", address("episodes", present()));
    show();
  }
  let asked = 0;
  async function show() {
    const mine = ++asked;
    const matching = await filtered(present());
    if (mine !== asked) return; // another filter was chosen meanwhile
    const table = matching.length && growing(matching, (rows) => entryTable(rows));
    const none = "No episode fits. Fewer filters show more.";
    box.replaceChildren(...fittingPart(matching.length, entries.length, "episode", table, none));
  }
  await show();
  return [el("h1", null, "Episodes"), form, box];
}

/** How many of all fit the filters, and their table, or what to read where none fits. */
function fittingPart(fitting, all, noun, table, none) {
  return [
    el("p", { class: "quiet", role: "status" }, `${plural(fitting, noun)} of ${count(all)}`),
    table || el("p", { class: "empty" }, none),
  ];
}

function labelled(name, field) {
  return el("label", null, el("span", null, name), field);
}

/** Promise of the entries that fit all filters. */
async function filtered({ q, run, outcome, kind, agent, tuple }) {
  const words = (q || "").toLowerCase().split(/\s+/).filter(Boolean);
  let used = null;
  if (tuple) {
    const ids = await allTuples();
    const number = ids.findIndex((one) => one.id === tuple);
    used = new Set(number < 0 ? [] : (await usesOf(number)).map((use) => use.entry));
  }
  return report.entries.filter(
    (one) =>
      (!run || one.run.id === run) &&
      (!outcome || one.outcome === outcome) &&
      (!kind || one.kind === kind) &&
      (!agent || one.run.agent === agent) &&
      (!used || used.has(one)) &&
      words.every((word) => `${one.goal} ${one.task} ${one.kind}`.toLowerCase().includes(word)),
  );
}

function entryLink(entry, more, ...children) {
  return link(
    "episode",
    { run: entry.run.id, task: entry.task, again: entry.again, ...more },
    ...children,
  );
}

function entryTable(entries) {
  const figures = filled(entries, (one, column) => one[column.name]);
  const several = report.runs.length > 1;
  const columns = [["outcome"], ["goal"], ["kind"]];
  if (several) columns.push(["run"]);
  columns.push(["score", true], ...figures.map((column) => [column.name, true]));
  const rows = entries.map((one) => [
    badge(one.outcome),
    el(
      "div",
      null,
      entryLink(one, null, oneLine(one.goal || one.task)),
      el(
        "div",
        { class: "quiet small" },
        visible(one.task),
        one.group ? ` · ${visible(one.group)}` : "",
      ),
    ),
    visible(one.kind),
    ...(several ? [visible(one.run.label)] : []),
    mean(one.score, 2),
    ...figures.map((column) => figure(one[column.name])),
  ]);
  return table(columns, rows, "entries cards");
}

async function tuplesView(values) {
  if (!report.tupleCount)
    return [
      el("h1", null, "Tuples"),
      el("p", { class: "empty" }, "Nothing was recalled in these runs."),
    ];
  const tuples = await allTuples();
  const ranked = [];
  for (const [number, one] of tuples.entries()) {
    const uses = await usesOf(number);
    const ended = uses.filter((use) => use.entry.outcome !== "error");
    const following = ended.filter((use) => use.followed);
    const solved = (some) =>
      some.length
        ? some.filter((use) => use.entry.outcome === "solved").length / some.length
        : null;
    ranked.push({
      one,
      recalled: sum(uses, "recalled"),
      followed: sum(uses, "followed"),
      episodes: uses.length,
      rate: solved(ended),
      following: solved(following),
    });
  }
  ranked.sort((a, b) => b.recalled - a.recalled || (a.one.id < b.one.id ? -1 : 1));
  const box = el("div", null);
  const search = el("input", {
    type: "search",
    value: values.q || "",
    placeholder: "action, goal or id",
    input: show,
  });
  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = ranked.filter(({ one }) =>
      words.every((word) =>
        `${one.id} ${one.action || ""} ${one.goal || ""} ${one.kind || ""}`
          .toLowerCase()
          .includes(word),
      ),
    );
    const table = fitting.length && growing(fitting, tupleTable, 50);
    box.replaceChildren(
      ...fittingPart(fitting.length, ranked.length, "tuple", table, "No tuple fits."),
    );
  }
  show();
  return [
    el("h1", null, "Tuples that were recalled"),
    el(
      "p",
      { class: "lead" },
      "How often each was recalled and followed, and how those episodes ended. This shows no cause: a tuple that is followed where tasks are hard anyway looks bad.",
    ),
    el(
      "form",
      { class: "filters", submit: (event) => event.preventDefault() },
      labelled("search", search),
    ),
    box,
  ];
}

function sum(uses, name) {
  return uses.reduce((total, use) => total + use[name], 0);
}

function tupleTable(ranked) {
  const columns = [
    ["tuple"],
    ["recalled", true],
    ["followed", true],
    ["episodes", true],
    ["solved", true],
    ["solved, followed", true],
  ];
  const rows = ranked.map(({ one, ...counts }) => [
    tupleCard(one),
    count(counts.recalled),
    count(counts.followed),
    link("episodes", { tuple: one.id }, count(counts.episodes)),
    percent(counts.rate),
    percent(counts.following),
  ]);
  return table(columns, rows, "tuples cards");
}

/** A tuple: its action and goal at once, and the rest in a fold. */
function tupleCard(one) {
  if (one.action === undefined)
    return el(
      "div",
      null,
      el("code", null, visible(one.id)),
      el(
        "div",
        { class: "quiet small" },
        "The memory that it is from is gone or no longer holds it.",
      ),
    );
  return fold(
    el(
      "span",
      null,
      el("code", { class: "action" }, oneLine(one.action, 90)),
      el("span", { class: "quiet small goal" }, oneLine(one.goal, 90)),
    ),
    () => tupleBody(one),
    { name: "tuple" },
  );
}

function tupleBody(one) {
  const outcome =
    one.score === undefined
      ? "unknown"
      : `score ${mean(one.score, 2)}, ${mean(one.value, 2)} from this step on`;
  const pairs = [
    ["goal", longText(one.goal, "text")],
    ["saw", longText(one.seen || "(nothing recorded)", "text")],
    ["did", longText(one.action, "text")],
  ];
  if (one.history) pairs.push(["before", longText(one.history, "text")]);
  pairs.push(
    ["outcome", outcome],
    [
      "from",
      visible(`${one.origin}, ${one.task}, step ${one.step + 1}, generation ${one.generation}`),
    ],
    ["id", link("episodes", { tuple: one.id }, el("code", null, visible(one.id)))],
  );
  return el(
    "dl",
    { class: "pairs" },
    pairs.flatMap(([name, value]) => [el("dt", null, name), el("dd", null, value)]),
  );
}
