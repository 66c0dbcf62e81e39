"use strict";
/* Data: chunks of JSON, compressed and in base64, unpacked when they are first needed. */

const CHUNKS_KEPT = 40;
const unpacked = new Map();

async function unpack(name) {
  const letters = atob(document.getElementById(name).textContent);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Promise of a chunk's content; those used last are kept. */
function chunk(name) {
  const known = unpacked.get(name);
  unpacked.delete(name);
  const content = known || unpack(name);
  unpacked.set(name, content);
  if (unpacked.size > CHUNKS_KEPT) unpacked.delete(unpacked.keys().next().value);
  return content;
}

/* The report: runs with their entries (episodes, or goals of a refinement), under numbers that
   count through all runs, and the tuples that they recalled. */
const report = { runs: [], entries: [], starts: [] };

async function readReport() {
  Object.assign(report, await chunk("overview"));
  report.entries = [];
  report.runs.forEach((run, place) => {
    run.place = place;
    const seen = new Map();
    run.entries.forEach((entry) => {
      entry.run = run;
      entry.number = report.entries.length;
      entry.again = seen.get(entry.task) || 0; // of an optimisation, tasks are drawn repeatedly
      seen.set(entry.task, entry.again + 1);
      report.entries.push(entry);
    });
  });
  let start = 0;
  report.starts = report.tuples.map((size) => (start += size) - size);
  report.tupleCount = start;
}

async function detailOf(entry) {
  return (await chunk(`entries-${entry.at[0]}`))[entry.at[1]];
}

/** Promise of the model calls of an entry, by key; their prompts are put together again. */
async function callsOf(entry) {
  if (!entry.asked) return new Map();
  const made = (await chunk(`calls-${entry.asked[0]}`))[entry.asked[1]];
  const calls = new Map();
  let before = [];
  for (const call of made) {
    const texts = call.messages.map(
      ([, same, rest], i) => (same ? before[i].slice(0, same) : "") + rest,
    );
    calls.set(call.key, { ...call, prompt: call.messages.map(([role], i) => [role, texts[i]]) });
    before = texts;
  }
  return calls;
}

async function tupleAt(number) {
  let place = report.starts.length - 1;
  while (report.starts[place] > number) place--;
  return (await chunk(`tuples-${place}`))[number - report.starts[place]];
}

let everyTuple = null;

/** Promise of all tuples, by number; once they were asked for, they are kept. */
function allTuples() {
  everyTuple ??= Promise.all(report.tuples.map((_, place) => unpack(`tuples-${place}`))).then(
    (chunks) => chunks.flat(),
  );
  return everyTuple;
}

/** Of each tuple, by number: [entry, steps that recalled it, steps that followed it]. */
async function usesOf(number) {
  const flat = (await chunk("uses"))[number] || [];
  const uses = [];
  for (let i = 0; i < flat.length; i += 3) {
    uses.push({ entry: report.entries[flat[i]], recalled: flat[i + 1], followed: flat[i + 2] });
  }
  return uses;
}

function runWith(id) {
  return report.runs.find((run) => run.id === id);
}

function entryWith(run, task, again) {
  return run && run.entries.find((one) => one.task === task && one.again === Number(again || 0));
}
