"use strict";
/* Which view the address names, the tabs, and the colours. */

const VIEWS = {
  overview: overviewView,
  episodes: episodesView,
  episode: episodeView,
  tuples: tuplesView,
  compare: compareView,
};
const THEMES = ["automatic", "light", "dark"];
let turn = 0;

function tabs(view) {
  const shown = [
    ["overview", "Overview"],
    ["episodes", "Episodes"],
  ];
  if (report.tupleCount) shown.push(["tuples", "Tuples"]);
  if (report.runs.length > 1) shown.push(["compare", "Compare"]);
  const present = view === "episode" ? "episodes" : view;
  document
    .getElementById("tabs")
    .replaceChildren(
      ...shown.map(([name, title]) =>
        el("a", { href: `#${name}`, "aria-current": name === present ? "page" : null }, title),
      ),
    );
}

async function show() {
  const mine = ++turn;
  const [name, query] = location.hash.slice(1).split(/\?(.*)/s);
  if (name === "main") return;
  const view = VIEWS[name] ? name : "overview";
  tabs(view);
  const main = document.getElementById("main");
  let parts;
  try {
    parts = await VIEWS[view](Object.fromEntries(new URLSearchParams(query || "")));
  } catch (error) {
    parts = [
      el("h1", null, "This part cannot be shown"),
      el("p", { class: "empty" }, visible(error.message)),
    ];
    console.error(error);
  }
  if (mine !== turn) return; // another address was chosen meanwhile
  main.className = view;
  main.replaceChildren(...parts.flat().filter(Boolean));
  const chosen = document.getElementById("chosen");
  if (chosen) {
    chosen.scrollIntoView({ block: "start" });
    // Once more when what is unpacked for it is there, which moves it.
    setTimeout(() => mine === turn && chosen.scrollIntoView({ block: "start" }), 100);
  } else window.scrollTo(0, 0);
  document.documentElement.dataset.ready = view;
}

function nextTheme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const chosen = THEMES[(THEMES.indexOf(root.dataset.theme || "automatic") + 1) % THEMES.length];
  root.dataset.theme = chosen;
  for (const name of ["aria-label", "title"]) button.setAttribute(name, `Colours: ${chosen}`);
  if (document.getElementById("main").className === "overview") show(); // charts have to be drawn anew
}

document.getElementById("theme").addEventListener("click", nextTheme);
window.addEventListener("hashchange", show);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
readReport().then(show);
