"use strict";
/* Two runs at one task: what they did alike, and from where on they part. */

async function compareView(values) {
  const { runs } = report;
  if (runs.length < 2)
    return [
      el("h1", null, "Side by side"),
      el("p", { class: "empty" }, "There is one run only: a report on several compares them."),
    ];
  const left = runWith(values.left) || runs[0];
  const right = runWith(values.right) || runs.find((run) => run !== left);
  const go = (changes) => () =>
    (location.hash = address("compare", {
      left: left.id,
      right: right.id,
      task: values.task,
      ...changes(),
    }));
  const choose = (name, chosen) => {
    const field = el(
      "select",
      null,
      runs.map((run) =>
        el("option", { value: run.id, selected: run === chosen }, visible(run.label)),
      ),
    );
    field.addEventListener(
      "change",
      go(() => ({ [name]: field.value })),
    );
    return field;
  };
  const head = [
    el("h1", null, "Side by side"),
    el(
      "form",
      { class: "filters" },
      labelled("left", choose("left", left)),
      labelled("right", choose("right", right)),
    ),
  ];
  const pairs = left.entries
    .map((one) => [one, entryWith(right, one.task, one.again)])
    .filter(([, other]) => other);
  const [mine, theirs] = pairs.find(([one]) => one.task === values.task) || [];
  if (!mine) return [...head, sharedTasks(pairs, left, right)];
  return [
    ...head,
    el("p", null, link("compare", { left: left.id, right: right.id }, "‹ all tasks of both")),
    el("h2", null, oneLine(mine.goal || mine.task, 300)),
    await aligned(mine, theirs),
  ];
}

function sharedTasks(pairs, left, right) {
  if (!pairs.length) return el("p", { class: "empty" }, "These two have no task in common.");
  const differ = ([a, b]) => a.outcome !== b.outcome;
  const sorted = [...pairs.filter(differ), ...pairs.filter((pair) => !differ(pair))];
  const rows = (some) =>
    table(
      [["goal"], ["kind"], [visible(left.label)], [visible(right.label)], ["steps", true]],
      some.map(([a, b]) => [
        el(
          "div",
          null,
          link(
            "compare",
            { left: left.id, right: right.id, task: a.task },
            oneLine(a.goal || a.task),
          ),
          el("div", { class: "quiet small" }, visible(a.task)),
        ),
        visible(a.kind),
        badge(a.outcome),
        badge(b.outcome),
        `${a.steps} / ${b.steps}`,
      ]),
      "entries cards",
    );
  return el(
    "div",
    null,
    el(
      "p",
      { class: "quiet" },
      `${plural(pairs.length, "task")} of both, ${count(pairs.filter(differ).length)} with another outcome, which come first.`,
    ),
    growing(sorted, rows),
  );
}

async function aligned(mine, theirs) {
  const details = await Promise.all([detailOf(mine), detailOf(theirs)]);
  const trials = details.map(
    (detail) => detail.trials[Math.max(0, detail.submitted)] || { opening: "", steps: [] },
  );
  const [one, other] = trials.map((trial) => trial.steps);
  let alike = 0;
  while (alike < Math.min(one.length, other.length) && same(one[alike], other[alike])) alike++;
  const parts = [
    el(
      "p",
      { class: "quiet" },
      alike === Math.max(one.length, other.length)
        ? "Both did the same."
        : alike
          ? `The first ${plural(alike, "step")} are the same; then they part.`
          : "They part at the first step.",
    ),
  ];
  if (alike)
    parts.push(
      fold(`${plural(alike, "step")} that both took`, () =>
        el(
          "ol",
          { class: "pair-list" },
          one.slice(0, alike).map((step, i) => el("li", null, sideStep(step, i))),
        ),
      ),
    );
  const calls = await Promise.all([callsOf(mine), callsOf(theirs)]);
  const column = (entry, steps, side) =>
    el(
      "div",
      { class: "side" },
      el("h3", null, entryLink(entry, null, visible(entry.run.label)), " ", badge(entry.outcome)),
      steps.length > alike
        ? growing(
            steps.slice(alike).map((step, i) => [step, alike + i]),
            (some) =>
              el(
                "ol",
                { class: "timeline" },
                some.map(([step, i]) =>
                  stepCard(
                    entry,
                    step,
                    i,
                    Math.max(0, details[side].submitted),
                    calls[side],
                    false,
                  ),
                ),
              ),
            60,
          )
        : el("p", { class: "empty" }, "It had ended here."),
    );
  parts.push(el("div", { class: "sides" }, column(mine, one, 0), column(theirs, other, 1)));
  return el("div", null, parts);
}

function same(one, other) {
  return one.action === other.action && one.seen === other.seen;
}

function sideStep(step, place) {
  return el(
    "div",
    { class: "step" },
    el(
      "div",
      { class: "head" },
      el("span", { class: "label number" }, String(place + 1)),
      el("span", { class: "action" }, oneLine(step.action || step.thought || "", 200)),
    ),
    el("div", { class: "quiet" }, oneLine(step.seen, 200)),
  );
}
