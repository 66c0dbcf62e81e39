"use strict";
/* The first page: runs in a table, success by kind, cost against success, curves, remarks. */

const COSTS = [
  ["mean_steps", "environment steps per task"],
  ["calls", "model calls per task"],
  ["tokens", "tokens per task"],
  ["time", "seconds per task"],
];

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
  const asked = runs.some((run) => run.calls);
  const columns = [
    ["run"],
    ["tasks", true],
    ["success", true],
    ["95 % interval"],
    ["score", true],
    ["steps", true],
  ];
  if (asked) columns.push(["calls", true], ["tokens", true]);
  columns.push(["seconds", true], ["errors", true]);
  const rows = runs.map((run) => {
    const sum = run.summary;
    const name = el(
      "div",
      null,
      link("episodes", { run: run.id }, visible(run.label)),
      run.finished ? null : el("span", { class: "badge open" }, "unfinished"),
      el("div", { class: "quiet small" }, visible(run.id)),
    );
    if (!sum)
      return [
        name,
        count(run.entries.length),
        null,
        "",
        null,
        null,
        ...(asked ? [null, null] : []),
        null,
        null,
      ];
    const cells = [
      name,
      count(sum.episodes),
      percent(sum.success_rate),
      rangeCell(sum, run.place),
      mean(sum.mean_score, 3),
      mean(sum.mean_steps),
    ];
    if (asked) cells.push(mean(sum.calls), count(sum.tokens));
    return [
      ...cells,
      mean(sum.seconds / Math.max(1, sum.episodes), 2),
      sum.errors ? el("strong", { class: "bad" }, count(sum.errors)) : "0",
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
  const known = COSTS.filter(([name]) => runs.some((run) => costOf(run, name) > 0));
  const box = el("div", null);
  const choice = el(
    "select",
    { change: draw },
    known.map(([name, title]) => el("option", { value: name }, title)),
  );
  function draw() {
    const [name, title] = known.find(([one]) => one === choice.value);
    const series = runs.map((run) => ({
      name: run.label,
      place: run.place,
      points: [[costOf(run, name), run.summary.success_rate, ...run.summary.interval]],
    }));
    box.replaceChildren(chart(title, series, false));
  }
  draw();
  return el("div", null, box, el("label", { class: "choice" }, "Cost: ", choice));
}

function costOf(run, name) {
  const sum = run.summary;
  return (name === "time" ? sum.seconds / Math.max(1, sum.episodes) : sum[name]) || 0;
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
