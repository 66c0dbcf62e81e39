"use strict";
/* The first page: runs in a table, success by kind, cost against success, curves, remarks. */

/** Columns of figures in which some row has one above 0. `of`: the figure of a row, or none. */
function filled(rows, of) {
  return report.columns.filter((column) => rows.some((row) => (of(row, column) || 0) > 0));
}

/** The figure of a run, per task where it stands beside other runs. */
function figureOf(run, column) {
  if (!run.summary) return null;
  const figure = run.summary[column.key];
  return column.per_task ? figure / Math.max(1, run.summary.episodes) : figure;
}

function overviewView() {
  const { runs } = report;
  const evaluated = runs.filter((run) => run.summary);
  const parts = [
    el("h1", null, runs.length === 1 ? visible(runs[0].label) : `${runs.length} runs`),
    lead(runs),
    runTable(runs),
  ];
  if (evaluated.length) parts.push(section("Success by kind of task", kindTable(evaluated)));
  const charts = report.curves.map((curve) => {
    const series = curve.series.map((one, place) => ({ ...one, place }));
    return section(visible(`Success over ${curve.over}`), chart(visible(curve.over), series, true));
  });
  if (evaluated.length > 1) charts.unshift(section("Cost against success", costChart(evaluated)));
  if (charts.length) parts.push(el("div", { class: "charts" }, charts));
  if (report.differences.length) parts.push(differences(report.differences));
  runs.forEach((run) => parts.push(runSection(run)));
  return parts;
}

function section(title, ...children) {
  return el("section", null, el("h2", null, title), ...children);
}

function lead(runs) {
  const places = [...new Set(runs.map((run) => `${run.env}, ${run.split}`))]
    .map(visible)
    .join("; ");
  const entries = report.entries.length;
  return el(
    "p",
    { class: "lead" },
    `${places} · ${plural(entries, "episode")}${report.tupleCount ? ` · ${plural(report.tupleCount, "tuple")} recalled` : ""}`,
  );
}

function differences(lines) {
  const list = () =>
    el(
      "ul",
      { class: "remarks" },
      lines.map((line) => el("li", null, visible(line))),
    );
  return section(
    "Differences",
    lines.length > 4 ? fold("Each two runs on the same tasks", list) : list(),
  );
}

function runTable(runs) {
  const figures = filled(runs, figureOf);
  const columns = [
    ["run"],
    ["tasks", true],
    ["success", true],
    ["95 % interval"],
    ["score", true],
    ...figures.map((column) => [column.heading, true]),
  ];
  const rows = runs.map((run) => {
    const sum = run.summary;
    const name = el(
      "div",
      null,
      link("episodes", { run: run.id }, visible(run.label)),
      run.finished ? null : el("span", { class: "badge open" }, "unfinished"),
      el("div", { class: "quiet small" }, visible(run.id)),
    );
    return [
      name,
      count(sum ? sum.episodes : run.entries.length),
      sum && percent(sum.success_rate),
      sum && rangeCell(sum, run.place),
      sum && mean(sum.mean_score, 3),
      ...figures.map((column) => sum && mean(figureOf(run, column), column.digits)),
    ];
  });
  return table(columns, rows, "runs cards");
}

function rangeCell(group, place) {
  return el(
    "div",
    { class: "range-cell" },
    intervalBar(group.success_rate, group.interval, place),
    el("span", { class: "number quiet" }, span(group.interval)),
  );
}

function kindTable(runs) {
  const kinds = [...new Set(runs.flatMap((run) => Object.keys(run.kinds)))].sort();
  const columns = [["kind"], ...runs.map((run) => [visible(run.label)])];
  const rows = kinds.map((kind) => [
    visible(kind),
    ...runs.map((run) => {
      const group = Object.hasOwn(run.kinds, kind) ? run.kinds[kind] : null;
      if (!group) return "–";
      const title = `${span(group.interval)} % of ${group.episodes}`;
      return el(
        "a",
        { class: "kind-cell", title, href: address("episodes", { run: run.id, kind }) },
        el("span", { class: "rate" }, percent(group.success_rate)),
        intervalBar(group.success_rate, group.interval, run.place),
        el("span", { class: "quiet small" }, `n ${group.episodes}`),
      );
    }),
  ]);
  return table(columns, rows, "kinds cards");
}

function costChart(runs) {
  const known = filled(runs, figureOf);
  const box = el("div", null);
  const choice = el(
    "select",
    { change: draw },
    known.map((column) => el("option", { value: column.name }, column.meaning)),
  );
  function draw() {
    const column = known.find((one) => one.name === choice.value);
    const series = runs.map((run) => ({
      name: run.label,
      place: run.place,
      points: [[figureOf(run, column), run.summary.success_rate, ...run.summary.interval]],
    }));
    box.replaceChildren(chart(column.meaning, series, false));
  }
  draw();
  return el("div", null, box, el("label", { class: "choice" }, "Cost: ", choice));
}

function runSection(run) {
  const parts = [];
  if (run.remarks.length)
    parts.push(
      el(
        "ul",
        { class: "remarks" },
        run.remarks.map((line) => el("li", null, visible(line))),
      ),
    );
  if (run.plans.length) {
    parts.push(
      el("h3", null, "Plans"),
      ...run.plans.map((plan, place) =>
        fold(
          `${plan.name}${plan.success === null ? "" : ` · success of its batch ${percent(plan.success)}`}${plan.kept ? " · the reply that was to improve it was of no use" : ""}`,
          () => longText(plan.text || "(empty)", "text"),
          { open: place === run.plans.length - 1 },
        ),
      ),
    );
  }
  parts.push(
    fold("Settings", () =>
      el(
        "dl",
        { class: "pairs" },
        run.settings.flatMap(([name, value]) => [
          el("dt", null, visible(name)),
          el("dd", null, visible(value)),
        ]),
      ),
    ),
  );
  return section(visible(run.label), ...parts);
}
