"use strict";
/* One episode: its steps, why each was taken, what a model was asked, and how the task was divided
   or searched. */

const STEPS = 60; // steps that are shown at first; further ones when asked for
const NEAREST = 5; // recalled tuples that are shown at first

async function episodeView(values) {
  const entry = entryWith(runWith(values.run), values.task, values.again);
  if (!entry)
    return [
      el("h1", null, "Not in this report"),
      el(
        "p",
        { class: "empty" },
        "There is no such episode. ",
        link("episodes", {}, "All episodes"),
      ),
    ];
  const detail = await detailOf(entry);
  const trial = values.trial === undefined ? Math.max(0, detail.submitted) : Number(values.trial);
  const parts = [
    crumbs(entry),
    el("h1", null, longText(entry.goal || entry.task, "heading")),
    facts(entry, detail),
    tools(entry),
  ];
  if (detail.error)
    parts.push(
      fold("Error", () => longText(detail.error, "text mono"), { open: true, name: "failure" }),
    );
  detail.texts.forEach(([name, text]) =>
    parts.push(fold(visible(name), () => longText(text, "text"), { open: true })),
  );
  detail.trees.forEach((tree) => parts.push(treeSection(tree)));
  if (detail.trials.length > 1) parts.push(trialTabs(entry, detail, trial));
  const shown = detail.trials[trial];
  if (shown) {
    const chosen = values.step === undefined ? null : Number(values.step);
    parts.push(
      el(
        "section",
        null,
        el("h2", null, shown.name || "Steps"),
        await stepsOf(entry, shown, trial, chosen),
      ),
    );
  } else {
    parts.push(el("p", { class: "empty" }, "No step was recorded."));
  }
  const notes = detail.notes.filter(([, of]) => detail.trials.length < 2 || of === trial || of < 0);
  if (notes.length)
    parts.push(
      section(
        "Notes of the agent",
        ...notes.map(([kind, of, data]) =>
          fold(visible(detail.trials.length > 1 ? `${kind}, trial ${of + 1}` : kind), () =>
            noteBody(data),
          ),
        ),
      ),
    );
  return parts;
}

function crumbs(entry) {
  const all = entry.run.entries;
  const place = all.indexOf(entry);
  const step = (other, text) =>
    other ? entryLink(other, null, text) : el("span", { class: "quiet" }, text);
  return el(
    "nav",
    { class: "crumbs", "aria-label": "Place" },
    link("episodes", { run: entry.run.id }, visible(entry.run.label)),
    el(
      "span",
      { class: "steps" },
      step(all[place - 1], "‹ previous"),
      el("span", { class: "quiet number" }, `${place + 1} of ${all.length}`),
      step(all[place + 1], "next ›"),
    ),
  );
}

function facts(entry, detail) {
  const pairs = [
    ["kind", entry.kind],
    ["score", mean(entry.score, 2)],
    ...filled([entry], (one, column) => one[column.name]).map(({ name }) => [
      name,
      figure(entry[name]),
    ]),
  ];
  if (detail.end && detail.end !== "done") pairs.push(["ended by", detail.end.replace("_", " ")]);
  if (entry.group) pairs.push(["part of", entry.group]);
  return el(
    "div",
    { class: "facts" },
    badge(entry.outcome),
    pairs.map(([name, value]) =>
      el("span", null, el("span", { class: "quiet" }, `${name} `), visible(value)),
    ),
    el("span", { class: "quiet small task" }, visible(entry.task)),
  );
}

function tools(entry) {
  const others = report.runs.filter(
    (run) => run !== entry.run && run.entries.some((one) => one.task === entry.task),
  );
  if (!others.length) return null;
  return el(
    "p",
    { class: "small" },
    "Side by side with ",
    others.flatMap((run, i) => [
      i ? ", " : "",
      link("compare", { task: entry.task, left: entry.run.id, right: run.id }, visible(run.label)),
    ]),
  );
}

function trialTabs(entry, detail, chosen) {
  return el(
    "nav",
    { class: "tabs", "aria-label": "Trials" },
    detail.trials.map((one, i) =>
      el(
        "a",
        {
          href: address("episode", {
            run: entry.run.id,
            task: entry.task,
            again: entry.again,
            trial: String(i),
          }),
          "aria-current": i === chosen ? "true" : null,
        },
        `trial ${i + 1}${i === detail.submitted ? " ✓" : ""}`,
        el("span", { class: "quiet small" }, ` ${mean(one.score, 2)}`),
      ),
    ),
  );
}

async function stepsOf(entry, trial, number, chosen) {
  const calls = await callsOf(entry);
  const list = el("ol", { class: "timeline" });
  list.append(
    el(
      "li",
      { class: "step start" },
      el("div", { class: "label" }, "start"),
      longText(trial.opening || "(nothing seen)", "text seen"),
    ),
  );
  let until = 0;
  const more = el("button", { type: "button", class: "more wide", click: () => grow(until + 200) });
  function grow(to) {
    more.remove();
    for (; until < Math.min(to, trial.steps.length); until++)
      list.append(stepCard(entry, trial.steps[until], until, number, calls, until === chosen));
    if (until < trial.steps.length) {
      more.textContent = `Show ${Math.min(200, trial.steps.length - until)} more steps of ${trial.steps.length - until}`;
      list.append(more);
    }
  }
  grow(Math.max(STEPS, (chosen ?? 0) + 1));
  if (!trial.steps.length) list.append(el("li", { class: "empty" }, "No step was taken."));
  if (trial.calls) list.append(el("li", { class: "step" }, callFolds(trial.calls, calls)));
  return list;
}

function stepCard(entry, step, place, trial, calls, chosen) {
  const here = {
    run: entry.run.id,
    task: entry.task,
    again: entry.again,
    trial: trial ? String(trial) : "",
    step: String(place),
  };
  const head = el(
    "div",
    { class: "head" },
    el(
      "a",
      { class: "label number", href: address("episode", here), title: "Link to this step" },
      String(place + 1),
    ),
  );
  if (step.action) head.append(longText(step.action, "action"));
  else head.append(el("span", { class: "quiet" }, "thought"));
  if (step.invalid) head.append(el("span", { class: "badge failed" }, "invalid"));
  if (step.reward)
    head.append(
      el(
        "span",
        { class: `badge ${step.reward > 0 ? "solved" : "failed"}` },
        `reward ${step.reward > 0 ? "+" : ""}${mean(step.reward, 2)}`,
      ),
    );
  const card = el(
    "li",
    { class: `step${chosen ? " chosen" : ""}`, id: chosen ? "chosen" : null },
    step.thought ? longText(step.thought, "text thought") : null,
    head,
    voteBars(step),
  );
  if (step.recalls)
    card.append(fold(recallSummary(step), () => recallList(step), { name: "why", open: chosen }));
  if (step.calls) card.append(...callFolds(step.calls, calls));
  if (step.action || step.seen) card.append(longText(step.seen || "(nothing seen)", "text seen"));
  return card;
}

/** How the recalls voted: the leading actions with their shares, and who decided. */
function voteBars(step) {
  if (!step.votes && !step.asked) return null;
  const decided = step.asked
    ? `a model decided${step.asked === "always" ? "" : ` (${visible(step.asked)})`}`
    : step.votes.length
      ? "the vote decided"
      : "no recall fitted: the action done least often";
  const bars = (step.votes || []).map(([action, share]) => {
    const bar = el("span", { class: "bar" }, el("span", { class: "fill" }));
    bar.firstChild.style.width = `${100 * share}%`;
    return el(
      "li",
      { class: action === step.action ? "taken" : null },
      el("code", null, oneLine(action, 80)),
      bar,
      el("span", { class: "number" }, percent(share)),
    );
  });
  return el(
    "div",
    { class: "vote" },
    el("div", { class: "quiet small" }, decided),
    el("ul", null, bars),
    step.because
      ? el("div", { class: "quiet small" }, `because: ${oneLine(step.because.join("; "), 300)}`)
      : null,
  );
}

function recallSummary(step) {
  const total = step.recalls.length / 2;
  const nearest = Math.max(...step.recalls.filter((_, i) => i % 2)) / 1000;
  const followed = step.followed ? `, ${step.followed.length} followed` : "";
  return `${plural(total, "tuple")} recalled${followed}, the nearest ${mean(nearest, 2)}`;
}

async function recallList(step) {
  const followed = new Set(step.followed || []);
  const recalls = [];
  for (let i = 0; i < step.recalls.length; i += 2) {
    recalls.push({
      tuple: await tupleAt(step.recalls[i]),
      similarity: step.recalls[i + 1] / 1000,
      followed: followed.has(i / 2),
    });
  }
  recalls.sort((a, b) => b.similarity - a.similarity);
  const make = (some) =>
    el(
      "ul",
      { class: "recalls" },
      some.map((recall) =>
        el(
          "li",
          { class: recall.followed ? "followed" : null },
          el(
            "span",
            { class: "similarity number", title: "similarity" },
            mean(recall.similarity, 2),
          ),
          tupleCard(recall.tuple),
          el(
            "span",
            { class: "small quiet origin" },
            recall.followed ? el("strong", null, "followed ") : "",
            originOf(recall.tuple),
          ),
        ),
      ),
    );
  return growing(recalls, make, NEAREST, 100);
}

function originOf(one) {
  if (one.action === undefined) return "";
  const outcome =
    one.score === undefined ? "" : one.value < 0 ? ", a failure" : `, score ${mean(one.score, 2)}`;
  return visible(
    `${one.origin}${outcome}${one.generation ? `, generation ${one.generation}` : ""}`,
  );
}

function callFolds(keys, calls) {
  return keys.map((key) => {
    const call = calls.get(key);
    if (!call)
      return el("p", { class: "quiet small" }, "A model was asked; this report leaves out what.");
    const tokens = `${count(call.usage[0])} + ${count(call.usage[1])} tokens`;
    return fold(
      `${visible(call.role)} · ${visible(call.model)} · ${tokens}${call.error ? ` · ${visible(call.error)}` : ""}`,
      () => [
        ...call.prompt.map(([role, text]) =>
          el(
            "div",
            { class: "message" },
            el("div", { class: "label" }, role),
            longText(text, "text mono"),
          ),
        ),
        el(
          "div",
          { class: "message reply" },
          el(
            "div",
            { class: "label" },
            `reply${call.finish === "stop" ? "" : `, ended by ${visible(call.finish)}`}`,
          ),
          longText(call.reply || "(empty)", "text mono"),
        ),
      ],
      { name: "call" },
    );
  });
}

/** Whatever an agent noted: names and values, nested ones indented. */
function noteBody(data, depth = 0) {
  if (data === null || typeof data !== "object") return longText(String(data), "text");
  const pairs = Array.isArray(data)
    ? data.map((value, i) => [String(i + 1), value])
    : Object.entries(data);
  if (depth > 6) return longText(JSON.stringify(data), "text mono");
  if (!pairs.length) return el("span", { class: "quiet" }, "(empty)");
  return growing(
    pairs,
    (some) =>
      el(
        "dl",
        { class: "pairs" },
        some.flatMap(([name, value]) => [
          el("dt", null, visible(name)),
          el("dd", null, noteBody(value, depth + 1)),
        ]),
      ),
    60,
  );
}

/* Trees: of an exploration, of a divided task, of a search. */
function treeSection(tree) {
  const parts = [el("h2", null, visible(tree.title))];
  if (tree.branches.length) {
    const pruned = tree.branches.filter((one) => one.state === "pruned").length;
    const list = (some) => el("ul", { class: "tree" }, some.map(branchRow));
    const box = el("div", null);
    const draw = (all) => {
      const branches = all ? tree.branches : tree.branches.filter((one) => one.state !== "pruned");
      setIndents(branches, tree.paths);
      box.replaceChildren(growing(branches, list, 300));
    };
    const all = el("input", { type: "checkbox", change: () => draw(all.checked) });
    if (pruned)
      parts.push(
        el(
          "label",
          { class: "choice" },
          all,
          ` show ${plural(pruned, "pruned branch").replace("branchs", "branches")}`,
        ),
      );
    draw(false);
    parts.push(box);
  }
  if (tree.added && tree.added.length)
    parts.push(
      fold(`${plural(tree.added.length, "tuple")} remembered of it`, () =>
        el(
          "ul",
          { class: "recalls" },
          tree.added.map((one) => el("li", null, tupleCard(one))),
        ),
      ),
    );
  return el("section", null, parts);
}

/** Of paths, the first goes straight down and what branches off is indented; else by depth. */
function setIndents(branches, paths) {
  const ways = []; // depth → [indent of the node there, whether it has a branch below already]
  for (const branch of branches) {
    const parent = ways[branch.depth - 1];
    branch.indent = paths ? (parent ? parent[0] + (parent[1] ? 1 : 0) : 0) : branch.depth;
    if (parent) parent[1] = true;
    ways[branch.depth] = [branch.indent, false];
  }
}

function branchRow(branch) {
  const figures = (branch.figures || []).map(([name, value]) =>
    el(
      "span",
      { class: "figure" },
      el("span", { class: "quiet" }, `${visible(name)} `),
      visible(value),
    ),
  );
  const line = el(
    "span",
    { class: "line" },
    el("span", { class: "node" }),
    el("span", { class: "what" }, oneLine(branch.text, 240)),
    branch.key ? el("span", { class: "badge key" }, "key step") : null,
    branch.words ? el("span", { class: "quiet small" }, visible(branch.words)) : null,
    figures,
  );
  const texts = branch.texts || [];
  const body = () =>
    el(
      "dl",
      { class: "pairs" },
      texts.flatMap(([name, text]) => [
        el("dt", null, visible(name)),
        el("dd", null, longText(text, "text")),
      ]),
    );
  const row = el(
    "li",
    { class: `branch ${branch.state || ""}${branch.chosen ? " chosen" : ""}` },
    texts.length ? fold(line, body) : el("div", { class: "bare" }, line),
  );
  row.style.setProperty("--depth", Math.min(branch.indent, 40));
  return row;
}
