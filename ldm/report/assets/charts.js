"use strict";
/* Charts, drawn by uPlot. Intervals and names of points are ours, drawn over them. */

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8;

/** What a colour of the styles is in the present theme; only an element's own colour says it. */
function colour(name) {
  const root = document.documentElement;
  root.style.outlineColor = `var(${name})`;
  const value = getComputedStyle(root).outlineColor;
  root.style.outlineColor = "";
  return value;
}

function colourOf(place) {
  return colour(`--c${place % COLOURS}`);
}

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** A rate with its interval, as a small bar from 0 to 100 %. */
function intervalBar(rate, interval, place = 0) {
  const picture = svg("svg", {
    viewBox: "0 0 100 12",
    class: `interval c${place % COLOURS}`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  picture.append(svg("rect", { x: 0, y: 5, width: 100, height: 2, rx: 1, class: "track" }));
  if (interval) {
    picture.append(
      svg("rect", {
        x: 100 * interval[0],
        y: 3,
        width: Math.max(0.6, 100 * (interval[1] - interval[0])),
        height: 6,
        rx: 2,
        class: "range",
      }),
    );
  }
  if (rate !== null && rate !== undefined) {
    picture.append(
      svg("rect", {
        x: Math.min(98, Math.max(0, 100 * rate - 1)),
        y: 0,
        width: 2,
        height: 12,
        rx: 1,
        class: "mark",
      }),
    );
  }
  return picture;
}

/**
 * Points with intervals. series: {name, place, points: [[x, rate, low, high], …]}; lines: whether
 * points of a series are joined.
 */
function chart(title, series, lines) {
  const box = el("div", { class: "chart", role: "img", "aria-label": title });
  const key = el(
    "ul",
    { class: "key" },
    series.map((one) =>
      el("li", null, el("span", { class: `dot c${one.place % COLOURS}` }), visible(one.name)),
    ),
  );
  const xs = [...new Set(series.flatMap((one) => one.points.map((point) => point[0])))].sort(
    (a, b) => a - b,
  );
  const columns = series.map((one) => {
    const known = new Map(one.points.map((point) => [point[0], 100 * point[1]]));
    return xs.map((x) => (known.has(x) ? known.get(x) : null));
  });
  const low = Math.min(...xs);
  const high = Math.max(...xs);
  const room = (high - low || Math.abs(high) || 1) * 0.12;
  const axis = {
    stroke: colour("--quiet"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line") },
    font: "12px system-ui",
  };
  const options = {
    width: 600,
    height: 260,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: [lines ? low - room / 2 : Math.max(0, low - room), high + room] },
      y: { range: [0, 100] },
    },
    axes: [
      { ...axis, label: title, labelFont: "12px system-ui", labelSize: 20 },
      { ...axis, values: (_, values) => values.map((value) => `${value} %`), size: 54 },
    ],
    series: [
      {},
      ...series.map((one) => ({
        stroke: colourOf(one.place),
        width: lines ? 2 : 0,
        spanGaps: true,
        paths: lines ? undefined : () => null,
        points: { show: true, size: 9, fill: colourOf(one.place) },
      })),
    ],
    hooks: { draw: [(plot) => series.forEach((one) => drawIntervals(plot, one))] },
  };
  if (lines && xs.every(Number.isInteger) && xs.length < 12) options.axes[0].splits = () => xs;
  let plot = null;
  const sized = new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width < 50) return;
    if (plot) plot.setSize({ width, height: options.height });
    else plot = new uPlot({ ...options, width }, [xs, ...columns], box);
  });
  sized.observe(box);
  return el("figure", null, box, key);
}

function drawIntervals(plot, one) {
  const context = plot.ctx;
  const ratio = window.devicePixelRatio || 1;
  context.save();
  context.strokeStyle = colourOf(one.place);
  context.globalAlpha = 0.55;
  context.lineWidth = 2 * ratio;
  for (const [x, , low, high] of one.points) {
    const left = plot.valToPos(x, "x", true);
    const end = 4 * ratio;
    const [from, to] = [low, high].map((rate) => plot.valToPos(100 * rate, "y", true));
    context.beginPath();
    context.moveTo(left, from);
    context.lineTo(left, to);
    for (const y of [from, to]) {
      context.moveTo(left - end, y);
      context.lineTo(left + end, y);
    }
    context.stroke();
  }
  context.restore();
}
