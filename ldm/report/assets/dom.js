"use strict";
/* Elements. Texts of records become text nodes, never markup. */

const SHOWN = 3000; // characters of a text before it has to be asked for
const BLOCK = 20000; // characters of a long text that are laid out together

/** Make an element. Attributes that are functions listen to events; null leaves one out. */
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** What would act unseen, such as control characters and marks of direction, becomes visible. */
function visible(text) {
  return String(text).replace(UNSEEN, (one) => {
    const code = one.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
  });
}

function oneLine(text, most = 160) {
  const line = visible(text.slice(0, most * 4))
    .replace(/\s+/g, " ")
    .trim();
  return line.length > most || text.length > most * 4 ? `${line.slice(0, most)}…` : line;
}

/** A text of any length: its beginning, and a button for the rest. */
function longText(text, name = "text") {
  const box = el("div", { class: name });
  if (text.length <= SHOWN) {
    box.append(visible(text));
    return box;
  }
  const rest = el(
    "button",
    { type: "button", class: "more", click: showAll },
    `Show all ${count(text.length)} characters`,
  );
  function showAll() {
    box.replaceChildren();
    for (let i = 0; i < text.length; i += BLOCK) {
      box.append(el("span", { class: "block" }, visible(text.slice(i, i + BLOCK))));
    }
  }
  box.append(visible(text.slice(0, SHOWN)), "… ", rest);
  return box;
}

/** A fold whose content is made when it is opened for the first time. */
function fold(summary, fill, { open = false, name = "" } = {}) {
  const body = el("div", { class: "fold-body" });
  const details = el("details", { class: `fold ${name}` }, el("summary", null, summary), body);
  let filled = false;
  const fillOnce = async () => {
    if (filled || !details.open) return;
    filled = true;
    body.append(...[await fill()].flat());
  };
  details.addEventListener("toggle", fillOnce);
  if (open) {
    details.open = true;
    fillOnce();
  }
  return details;
}

function badge(outcome) {
  return el("span", { class: `badge ${outcome}` }, outcome);
}

function link(view, values, ...children) {
  return el("a", { href: address(view, values) }, ...children);
}

function address(view, values) {
  const filled = Object.entries(values || {}).filter(
    ([, value]) => value !== "" && value !== undefined && value !== null && value !== 0,
  );
  const query = new URLSearchParams(filled).toString();
  return query ? `#${view}?${query}` : `#${view}`;
}

/** A table whose numbers stand to the right. columns: [name, whether of numbers]. */
function table(columns, rows, name = "") {
  const head = el(
    "tr",
    null,
    columns.map(([title, number]) =>
      el("th", { scope: "col", class: number ? "number" : null }, title),
    ),
  );
  const body = rows.map((cells) =>
    el(
      "tr",
      null,
      cells.map((cell, i) =>
        el(
          "td",
          { class: columns[i][1] ? "number" : null, "data-name": columns[i][0] },
          cell ?? "–",
        ),
      ),
    ),
  );
  return el(
    "div",
    { class: `scroll ${name}` },
    el("table", null, el("thead", null, head), el("tbody", null, body)),
  );
}

/** A list of rows that grows when asked to. */
function growing(rows, make, most = 100, further = most) {
  const box = el("div", null);
  let until = 0;
  const more = el("button", { type: "button", class: "more wide", click: grow });
  function grow() {
    const next = rows.slice(until, until + (until ? further : most));
    until += next.length;
    more.remove();
    box.append(make(next));
    if (until < rows.length) {
      more.textContent = `Show ${Math.min(further, rows.length - until)} more of ${count(rows.length - until)}`;
      box.append(more);
    }
  }
  grow();
  return box;
}

function percent(rate) {
  return rate === null || rate === undefined ? "–" : `${(100 * rate).toFixed(1)} %`;
}

function span(interval) {
  return interval ? `${(100 * interval[0]).toFixed(1)}–${(100 * interval[1]).toFixed(1)}` : "–";
}

function count(value) {
  return value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en");
}

function mean(value, digits = 1) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** A figure of one episode: most are whole numbers. */
function figure(value) {
  return Number.isInteger(value) ? count(value) : mean(value);
}

function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
