// Without this script, the page is complete except for charts, sorting and filtering. Plotly and
// the series are in the page in compressed form, and are unpacked when the first chart comes into
// view, so that a page that is only read needs little memory.
"use strict";
const ROWS_AT_FIRST = 50; // fleet.py hides the others until this script is there
const $ = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
// Plotly ignores the style sheet: these are its colours, for the scheme at the time of drawing.
const DARK = matchMedia("(prefers-color-scheme: dark)");
const look = () => DARK.matches
  ? { ink: "#e8e8e8", page: "#15181c", grid: "#2e343b", edge: "#8b9199",
      band: "rgba(143,193,243,0.28)", shade: "rgba(160,160,160,0.22)" }
  : { ink: "#1a1a1a", page: "#ffffff", grid: "#e4e4e4", edge: "#888888",
      band: "rgba(23,74,124,0.22)", shade: "rgba(120,120,120,0.2)" };
const CONFIG = { responsive: true, displaylogo: false, displayModeBar: false, showTips: false };
// Plotly reads a subset of HTML in texts, and the texts come from messages.
const escaped = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

async function unpack(id) {
  const packed = Uint8Array.from(atob($("#" + id).textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).text();
}

let loading = null;
function library() {
  loading ??= Promise.all([unpack("plotly"), unpack("series")]).then(([code, series]) => {
    const script = document.createElement("script");
    script.textContent = code;
    document.head.append(script);
    return JSON.parse(series);
  });
  return loading;
}

// ---- the list of devices: order, filter, how many

function setUpList() {
  const body = $(".fleet tbody");
  if (!body) return;
  const rows = all("tr", body), order = $("#order"), filter = $("#filter");
  const state = $("#state"), more = $("#more");
  let limit = ROWS_AT_FIRST, key = "", direction = 1;
  const name = (row) => $("button", row).textContent;
  const value = (row) => Number($(`[data-k="${key}"]`, row)?.dataset.v ?? NaN);
  // the order of the page: what needs attention first
  const place = new Map(rows.map((row, at) => [row, at]));
  const byName = (a, b) => name(a).localeCompare(name(b), undefined, { numeric: true });
  const byValue = (a, b) => {
    const [x, y] = [value(a), value(b)];
    // unknown values come last in both directions
    if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
    return (x - y) * direction || place.get(a) - place.get(b);
  };
  function show() {
    const text = filter.value.trim().toLowerCase();
    const fits = (row) => name(row).toLowerCase().includes(text) &&
      (!state.value || ` ${row.dataset.s} `.includes(` ${state.value} `));
    const compare = key === "" ? (a, b) => place.get(a) - place.get(b)
      : key === "name" ? (a, b) => byName(a, b) * direction
      : byValue;
    const found = rows.filter(fits).sort(compare);
    rows.forEach((row) => {
      row.hidden = true;
      row.classList.remove("later");
      if (row.detail) row.detail.hidden = true;
    });
    found.forEach((row, number) => {
      row.hidden = number >= limit;
      body.append(row);
      if (row.detail) { row.detail.hidden = row.hidden || !row.open; body.append(row.detail); }
    });
    body.append(...rows.filter((row) => !fits(row)));
    more.hidden = found.length <= limit;
    more.textContent = `Show all ${found.length}`;
    $("#shown").textContent = found.length
      ? `${Math.min(limit, found.length)} of ${rows.length} devices` : "no device matches";
    all(".fleet th").forEach((th) => {
      const sorted = key && th.dataset.k === key;
      sorted ? th.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending")
        : th.removeAttribute("aria-sort");
    });
  }
  const sortBy = (k, d) => { [key, direction] = [k, d]; order.value = k; show(); };
  const first = (k) => (k === "name" ? 1 : -1);
  all(".fleet th[data-k] button").forEach((button) => {
    const k = button.parentElement.dataset.k;
    button.onclick = () => sortBy(k, key === k ? -direction : first(k));
  });
  order.onchange = () => sortBy(order.value, first(order.value));
  filter.oninput = state.onchange = show;
  more.onclick = () => { limit = Infinity; show(); };
  body.onclick = (event) => {
    const button = event.target.closest(".name button");
    if (button) toggle(button.closest("tr"), button);
  };
  $(".tools").hidden = false;
  show();
}

// ---- one device

function toggle(row, button) {
  row.open = !row.open;
  button.setAttribute("aria-expanded", row.open);
  if (!row.detail) {
    row.detail = document.createElement("tr");
    row.detail.className = "detail";
    const cell = row.detail.insertCell();
    cell.colSpan = row.cells.length;
    row.after(row.detail);
    fill(cell, Number(row.dataset.i), JSON.parse(row.dataset.f))
      .catch((error) => failed(cell, error));
  }
  row.detail.hidden = !row.open;
}

function add(parent, tag, text, className) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (className) element.className = className;
  parent.append(element);
  return element;
}

const failed = (place, error) => add(place, "p",
  `The charts cannot be drawn: ${error.message}. They need a browser of 2023 or later.`);

async function fill(cell, device, facts) {
  const list = add(cell, "ul", "", "facts-of");
  facts.forEach((fact) => add(list, "li", fact));
  if (!$("#series")) return;
  const wait = add(cell, "p", "Unpacking …", "quiet");
  const data = await library();
  wait.remove();
  gapsOf(cell, data.gaps[device]);
  const charts = add(cell, "div", "", "charts"), draw = [];
  const values = data.values[device] ?? {}, late = data.delays[device];
  data.metrics.forEach(([name, unit], number) => {
    if (!values[number]) return;
    const place = chartIn(charts, unit ? `${name} (${unit})` : name);
    draw.push(() => metric(place, data, device, values[number]));
  });
  if (late) {
    const place = chartIn(charts, "time from reading to arrival");
    draw.push(() => delays(place, data, device, ofDevice(late)));
  }
  // after all are added: the width of each depends on their number
  draw.forEach((one) => one());
  if (!draw.length) {
    add(cell, "p", "No reading of this device has a time: nothing to draw.", "quiet");
  }
}

function gapsOf(cell, gaps) {
  if (!gaps) return;
  const words = gaps.map(([stream, a, b, state]) => {
    const range = a === b ? a : `${a}–${b}`;
    return `${range} of ${stream} (${state === "closed" ? "lost" : "may still come"})`;
  });
  add(cell, "p", `Missing: ${words.join(", ")}${gaps.length === 20 ? ", and maybe more" : ""}.`);
}

function chartIn(charts, title) {
  const box = add(charts, "div");
  add(box, "h3", title);
  return add(box, "div", "", "chart");
}

// ---- charts

const timeOf = (ms) => new Date(ms).toISOString().slice(0, -1);
const at = (data, bin) => timeOf(data.origin + (bin + 0.5) * data.width);
const times = (data, first, list) => list.map((_, n) => at(data, first + n));

function layout(data, height, device) {
  const { ink, page, grid, edge } = look();
  const axis = {
    gridcolor: grid, zeroline: false, linecolor: edge, automargin: true, fixedrange: true,
  };
  const range = [at(data, -1), at(data, data.bins)];
  return {
    height, margin: { l: 8, r: 10, t: 20, b: 26 }, dragmode: false,
    paper_bgcolor: page, plot_bgcolor: page,
    font: { family: "system-ui, sans-serif", size: 12, color: ink }, showlegend: false,
    hoverlabel: { bgcolor: page, font: { color: ink } }, hovermode: "x",
    xaxis: { ...axis, range, nticks: 5 }, yaxis: { ...axis, nticks: 4 }, ...marks(data, device),
  };
}

function marks(data, device) {
  const shapes = [], annotations = [];
  for (const [begin, end, letter, kind, whose] of data.outages) {
    if (whose !== -1 && whose !== device) continue;
    const x = [begin, end].map(timeOf);
    if (end > begin) {
      shapes.push({
        type: "rect", x0: x[0], x1: x[1], y0: 0, y1: 1, yref: "paper",
        fillcolor: look().shade, line: { width: 0 }, layer: "below",
      });
    }
    annotations.push({
      x: x[0], y: 1, yref: "paper", yanchor: "bottom", xanchor: "center",
      text: letter, hovertext: escaped(kind), showarrow: false, font: { size: 11 },
    });
  }
  return { shapes, annotations };
}

// Lowest and highest as bands, one for each run without a gap, so that silence stays white.
function bands(data, first, low, high) {
  const found = [];
  for (let n = 0; n < low.length; n++) {
    if (low[n] === null) continue;
    const begin = n;
    while (n + 1 < low.length && low[n + 1] !== null) n++;
    const bins = [...Array(n - begin + 1).keys()].map((k) => k + begin), back = [...bins].reverse();
    found.push({
      x: [...bins, ...back].map((k) => at(data, first + k)),
      y: [...bins.map((k) => high[k]), ...back.map((k) => low[k])],
      fill: "toself", fillcolor: look().band, line: { width: 0 }, mode: "lines", hoverinfo: "skip",
    });
  }
  return found;
}

function metric(place, data, device, [first, mean, low, high]) {
  const color = look().ink;
  const line = {
    x: times(data, first, mean), y: mean, mode: "lines+markers", marker: { size: 3, color },
    line: { color, width: 1.3 }, hovertemplate: "%{y}<extra></extra>",
  };
  const traces = [...(low ? bands(data, first, low, high) : []), line];
  Plotly.newPlot(place, traces, layout(data, 150, device), CONFIG);
}

const TICKS = [
  [1, "1 ms"], [10, "10 ms"], [100, "100 ms"], [1e3, "1 s"], [1e4, "10 s"], [6e4, "1 min"],
  [6e5, "10 min"], [36e5, "1 h"], [36e6, "10 h"], [864e5, "1 day"], [6048e5, "1 week"],
];
const ofDevice = ([first, p50, max]) => [
  ["longest", "dot", first, max], ["median", "solid", first, p50],
];

function delays(place, data, device, lines, height = 190) {
  const traces = lines.map(([name, dash, first, list]) => ({
    name, x: times(data, first, list), mode: "lines",
    y: list.map((v) => (v === null ? null : Math.max(v, 1))),
    line: { color: look().ink, width: dash === "solid" ? 2 : 1.3, dash },
    hovertemplate: `%{y:,.0f} ms<extra>${name}</extra>`,
  }));
  const plan = layout(data, height, device);
  const tickvals = TICKS.map((t) => t[0]), ticktext = TICKS.map((t) => t[1]);
  plan.yaxis = { ...plan.yaxis, type: "log", tickvals, ticktext };
  plan.showlegend = true;
  plan.legend = {
    orientation: "h", x: 0, yref: "container", y: 0.01, yanchor: "bottom", itemwidth: 40,
  };
  plan.margin.b = 62;
  Plotly.newPlot(place, traces, plan, CONFIG);
}

function setUpFleetChart() {
  const place = $("#latency");
  if (!place) return;
  const observer = new IntersectionObserver(async (entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    try {
      const data = await library(), [first, p50, p99, max] = data.fleet;
      place.textContent = "";
      // where the 99 % hardly differs from the longest, its line would hide it
      const differs = p99.filter((v, n) => v !== null && v < 0.9 * max[n]).length > p99.length / 4;
      const middle = differs ? [["99 %", "dash", first, p99]] : [];
      const [longest, median] = ofDevice([first, p50, max]);
      delays(place, data, -1, [longest, ...middle, median], 300);
    } catch (error) {
      failed(place, error);
    }
  }, { rootMargin: "300px" });
  observer.observe(place);
}

setUpList();
setUpFleetChart();
