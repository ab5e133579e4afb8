// watch.js -- reads the runs, their logs and samples, again and again, and draws them.
"use strict";

const COLOURS = ["#1f77d0", "#e4694b", "#2fa394", "#9a6ad1", "#c79a1e", "#c43d63", "#5f8f3e", "#7a8798"];
const POLL_MS = 1000, PACE_STEPS = 50, MAX_SORTED = 4000;

const $ = id => document.getElementById(id);
function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {}))
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v); else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0, v = bytes;
  while (v >= 1024 && u < 4) { v /= 1024; u++; }
  return (u === 0 || v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2)) + " " + units[u];
}
const countText = n => Math.round(n).toLocaleString("en-US");
function numberText(v) {                                // about four digits, as people write them
  if (!isFinite(v)) return "not finite";
  const a = Math.abs(v);
  return a === 0 ? "0" : a >= 1e5 || a < 1e-3 ? v.toExponential(2) : a >= 100 ? v.toFixed(1) : a >= 1 ? v.toFixed(3) : v.toFixed(4);
}
function timeText(ms) { return ms >= 120000 ? (ms / 60000).toFixed(1) + " min" : ms >= 1000 ? (ms / 1000).toFixed(2) + " s" : ms.toFixed(ms >= 100 ? 0 : ms >= 10 ? 1 : 2) + " ms"; }
// On an axis all marks have the same digits and the same unit.
function tickText(v, step) { const a = Math.abs(v); return a > 0 && (a >= 1e5 || step < 1e-5) ? v.toExponential(1) : v.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9))); }
function tickTime(ms, step) { const seconds = step >= 500; return tickText(seconds ? ms / 1000 : ms, seconds ? step / 1000 : step) + (seconds ? " s" : " ms"); }
function spanText(s) {
  s = Math.max(0, Math.round(s));
  const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${s % 60} s` : `${s} s`;
}
function clockText(date) {
  const day = date.toDateString() === new Date().toDateString() ? "" : date.toLocaleDateString([], { day: "numeric", month: "short" }) + ", ";
  return day + date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

// ---- a run: what its log says so far ----

class Run {
  constructor(index, name) {
    Object.assign(this, { index, name, samples: [], about: {} });
    this.forget();
  }
  forget() { Object.assign(this, { id: 0, at: 0, step: [], loss: [], lr: [], norm: [], ms: [], time: [], val: [], valStep: [], memory: 0, means: {}, middles: [] }); }
  add(line) {
    let e;
    try { e = JSON.parse(line); } catch { return; }
    if (typeof e.step !== "number") return;
    this.step.push(e.step);
    for (const [to, key] of [["loss", "loss"], ["lr", "lr"], ["norm", "grad_norm"], ["ms", "ms"], ["time", "time"]]) this[to].push(e[key] ?? NaN);
    if (e.val_loss !== undefined) { this.val.push(e.val_loss ?? NaN); this.valStep.push(e.step); }
    this.memory = Math.max(this.memory, e.memory_bytes ?? 0);
  }
  async read() {                                        // true: something is new
    let any = false;
    for (;;) {
      const answer = await fetch(`log?run=${this.index}&from=${this.at}`);
      if (!answer.ok) throw new Error(`the log cannot be read (${answer.status})`);
      const [id, from, end] = answer.headers.get("X-Log").split(" ").map(Number), text = await answer.text();
      if (this.at && (id !== this.id || from !== this.at)) { this.forget(); any = true; continue; }     // a resumed run has shortened it
      this.id = id;
      if (end === this.at) return any;
      for (const line of text.split("\n")) if (line) this.add(line);
      this.at = end;
      any = true;
    }
  }
  get last() { return this.step.length - 1; }
  get state() {
    if (this.about.running) return this.last < 0 ? ["starting", "fair"] : ["running", "good"];
    if (this.last >= 0 && this.about.steps && this.step[this.last] >= this.about.steps) return ["finished", "good"];
    return ["stopped", "bad"];
  }
  pace() {                                              // seconds a step takes on the clock, validation and samples included
    const n = this.last, k = Math.max(0, n - PACE_STEPS);
    const wall = n > k ? (this.time[n] - this.time[k]) / (this.step[n] - this.step[k]) : NaN;
    return isFinite(wall) && wall > 0 && wall < 3600 * 6 ? wall : this.ms[n] / 1000;
  }
  // A mean that forgets by `keep` a step, corrected for its beginning (as Adam's moments are). Logs get long: only what is new is computed.
  smooth(key, keep) {
    const y = this[key];
    if (this.means[key]?.keep !== keep) this.means[key] = { keep, out: [], sum: 0, weight: 0 };
    const c = this.means[key];
    for (let i = c.out.length; i < y.length; i++) {
      if (isFinite(y[i])) { c.sum = keep * c.sum + (1 - keep) * y[i]; c.weight = keep * c.weight + 1 - keep; }
      c.out.push(c.weight ? c.sum / c.weight : NaN);
    }
    return c.out;
  }
  // Step times, each the median of 21 around it.
  medianMs() {
    const half = 10, out = this.middles, y = this.ms;
    out.length = Math.max(0, out.length - half);           // their later neighbours were not known yet
    for (let i = out.length; i < y.length; i++) {
      const near = y.slice(Math.max(0, i - half), i + half + 1).filter(isFinite).sort((a, b) => a - b);
      out.push(near[near.length >> 1] ?? NaN);
    }
    return out;
  }
  stepMs() {
    const recent = this.ms.slice(-PACE_STEPS).filter(isFinite).sort((a, b) => a - b);
    return recent.length ? recent[recent.length >> 1] : NaN;
  }
}

// ---- charts ----

function niceTicks(low, high, n) {
  const rough = (high - low) / n, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(k => k * power >= rough) * power, out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(i * step);
  return out;
}

class Chart {
  constructor(id, text, tick) {
    this.box = $(id);
    this.text = text;                                   // a value in words
    this.tick = tick;                                   // the same on the axis, whose marks are `step` apart
    this.canvas = element("canvas", { role: "img" });
    this.tip = element("div", { class: "tip", hidden: true });
    this.empty = element("div", { class: "empty" }, "No step yet");
    this.box.append(this.canvas, this.tip, this.empty);
    this.series = [];
    this.log = false;
    this.box.addEventListener("pointermove", e => { this.at = e.clientX - this.box.getBoundingClientRect().left; this.draw(); });
    this.box.addEventListener("pointerleave", () => { this.at = undefined; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  // series: { name, colour, x, y, faint, dots, hidden }; hidden from the tip
  show(series) { this.series = series.filter(s => s.x.length); this.range = this.bounds(); this.draw(); }

  value(v) { return this.log ? Math.log10(v) : v; }
  bounds() {
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    for (const s of this.series) {
      x0 = Math.min(x0, s.x[0]); x1 = Math.max(x1, s.x[s.x.length - 1]);
      if (s.faint) continue;                            // the smoothed line says what matters; outliers do not flatten it
      for (const y of s.y) if (isFinite(y) && (!this.log || y > 0)) { y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
    }
    for (const s of this.series) if (s.faint) {         // most of the raw numbers too
      const every = Math.ceil(s.y.length / MAX_SORTED);
      const sorted = s.y.filter((y, i) => i % every === 0 && isFinite(y) && (!this.log || y > 0)).sort((a, b) => a - b), k = Math.floor(sorted.length * .02);
      if (sorted.length) { y0 = Math.min(y0, sorted[k]); y1 = Math.max(y1, sorted[sorted.length - 1 - k]); }
    }
    if (!isFinite(y0)) { y0 = 0; y1 = 1; }
    if (x1 <= x0) { x0 -= .5; x1 += .5; }
    let a = this.value(y0), b = this.value(y1);
    const pad = b > a ? .06 * (b - a) : Math.abs(a) * .1 || .5;
    a -= pad; b += pad;
    if (!this.log && y0 >= 0 && a < 0) a = 0;
    return { x0, x1, a, b };
  }

  draw() {
    const w = this.box.clientWidth, h = this.box.clientHeight, dpr = window.devicePixelRatio || 1;
    this.empty.hidden = this.series.length > 0;
    if (!w || !h) return;
    this.canvas.width = Math.round(w * dpr); this.canvas.height = Math.round(h * dpr);
    const g = this.canvas.getContext("2d"), css = getComputedStyle(document.documentElement);
    const ink = css.getPropertyValue("--ink"), soft = css.getPropertyValue("--soft"), line = css.getPropertyValue("--line");
    g.scale(dpr, dpr);
    this.tip.hidden = true;
    if (!this.series.length) return;
    const { x0, x1, a, b } = this.range, left = 58, right = 10, top = 8, bottom = 24;
    const X = v => left + (v - x0) / (x1 - x0) * (w - left - right), Y = v => h - bottom - (this.value(v) - a) / (b - a) * (h - top - bottom);
    g.font = "11px system-ui, sans-serif"; g.strokeStyle = line; g.fillStyle = soft; g.lineWidth = 1;
    g.textAlign = "right"; g.textBaseline = "middle";
    const few = Math.max(2, Math.floor(h / 42));
    let ticks = niceTicks(a, b, few).map(t => this.log ? 10 ** t : t);
    if (this.log && b - a > 1) ticks = niceTicks(a, b, few).filter(t => Math.abs(t - Math.round(t)) < 1e-6).map(t => 10 ** t);
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : Math.abs(ticks[0]) || 1;
    for (const t of ticks) {
      const y = Math.round(Y(t)) + .5;
      g.beginPath(); g.moveTo(left, y); g.lineTo(w - right, y); g.stroke();
      g.fillText(this.log ? this.text(t) : this.tick(t, step), left - 7, y);
    }
    g.textAlign = "right"; g.textBaseline = "top";
    g.fillText("step", left - 7, h - bottom + 7);
    g.textAlign = "center";
    for (const t of niceTicks(x0, x1, Math.max(2, Math.floor(w / 110)))) if (t === Math.round(t)) {
      const label = countText(t), half = g.measureText(label).width / 2;
      g.fillText(label, Math.min(w - half, Math.max(half, X(t))), h - bottom + 7);
    }
    g.save();
    g.beginPath(); g.rect(left, top, w - left - right, h - top - bottom + 1); g.clip();
    for (const s of this.series) this.line(g, s, X, Y, w);
    g.restore();
    if (this.at !== undefined) this.point(g, X, Y, { x0, x1, left, right, w, h, top, bottom, ink });
  }

  // One point for each pixel would hide peaks: per pixel the line goes through its lowest and highest.
  line(g, s, X, Y, w) {
    g.globalAlpha = s.faint ? .28 : s.other ? .45 : 1;
    g.strokeStyle = g.fillStyle = s.colour;
    g.lineWidth = s.faint ? 1 : s.other ? 1.4 : 2; g.lineJoin = "round";
    if (s.dots) {
      for (let i = 0; i < s.x.length; i++) if (isFinite(s.y[i])) { g.beginPath(); g.arc(X(s.x[i]), Y(s.y[i]), s.x.length > 120 ? 2 : 3.5, 0, 7); g.fill(); }
      g.globalAlpha = 1;
      if (s.x.length < 2) return;
      g.lineWidth = 1.2;
    }
    g.beginPath();
    const dense = s.x.length > 2 * w && !s.dots;
    let open = false;
    for (let i = 0; i < s.x.length;) {
      if (!isFinite(s.y[i])) { open = false; i++; continue; }
      const px = Math.round(X(s.x[i]));
      let low = i, high = i, end = i + 1;
      if (dense) for (; end < s.x.length && Math.round(X(s.x[end])) === px && isFinite(s.y[end]); end++) { if (s.y[end] < s.y[low]) low = end; if (s.y[end] > s.y[high]) high = end; }
      for (const k of low === high ? [low] : low < high ? [low, high] : [high, low]) { const x = X(s.x[k]), y = Y(s.y[k]); if (open) g.lineTo(x, y); else g.moveTo(x, y); open = true; }
      i = end;
    }
    g.stroke();
    if (!s.dots && s.x.length === 1 && isFinite(s.y[0])) { g.beginPath(); g.arc(X(s.x[0]), Y(s.y[0]), 3, 0, 7); g.fill(); }
    g.globalAlpha = 1;
  }

  point(g, X, Y, m) {
    const v = m.x0 + (this.at - m.left) / (m.w - m.left - m.right) * (m.x1 - m.x0);
    const rows = [];
    let step;
    for (const s of this.series) {
      if (s.hidden) continue;
      let lo = 0, hi = s.x.length - 1;
      while (lo < hi) { const mid = (lo + hi) >> 1; if (s.x[mid] < v) lo = mid + 1; else hi = mid; }
      if (lo && Math.abs(s.x[lo - 1] - v) < Math.abs(s.x[lo] - v)) lo--;
      if (step === undefined) step = s.x[lo];
      rows.push([s, s.x[lo], s.y[lo]]);
    }
    if (step === undefined) return;
    const x = X(step);
    g.strokeStyle = m.ink; g.globalAlpha = .35; g.beginPath(); g.moveTo(Math.round(x) + .5, m.top); g.lineTo(Math.round(x) + .5, m.h - m.bottom); g.stroke(); g.globalAlpha = 1;
    for (const [s, sx, sy] of rows) if (isFinite(sy)) { g.fillStyle = s.colour; g.beginPath(); g.arc(X(sx), Y(sy), 3.5, 0, 7); g.fill(); }
    this.tip.replaceChildren(element("b", {}, `step ${countText(step)}`), ...rows.slice(0, 8).map(([s, sx, sy]) => {
      const key = element("i", { style: `display:inline-block;width:9px;height:9px;border-radius:5px;margin-right:6px;background:${s.colour}` });
      return element("div", {}, key, `${s.name} ${this.text(sy)}${sx === step ? "" : ` (step ${countText(sx)})`}`);
    }));
    this.tip.hidden = false;
    const tw = this.tip.offsetWidth;
    this.tip.style.left = (x + 14 + tw > m.w ? Math.max(0, x - tw - 12) : x + 14) + "px";
    this.tip.style.top = "10px";
  }
}

// ---- the page ----

const page = { runs: [], selected: 0, smooth: .9, charts: {}, folder: "", failed: 0 };

function tile(label, value, more, main, ...extra) {
  return element("div", { class: main ? "tile main" : "tile" }, element("div", { class: "label" }, label), element("div", { class: "value" }, value), ...extra,
                 element("div", { class: "more" }, more));
}
function meter(...shares) {
  return element("div", { class: "meter" }, ...shares.map(([share, cls]) => element("i", { class: cls, style: `width:${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%` })));
}

function tiles(run) {
  const { about, last } = run, out = [], steps = about.steps, step = last >= 0 ? run.step[last] : 0, [state] = run.state;
  out.push(tile("Step", countText(step), steps ? `of ${countText(steps)}, ${(100 * step / steps).toFixed(step < steps ? 1 : 0)} %` : "", true, steps ? meter([step / steps, ""]) : null));
  const mean = run.smooth("loss", page.smooth), val = run.val.length - 1, best = Math.min(...run.val.filter(isFinite));
  out.push(tile("Loss, smoothed", last >= 0 ? numberText(mean[last]) : "–", last >= 0 ? `first ${numberText(run.loss[0])}, last ${numberText(run.loss[last])}` : "no step yet"));
  if (val >= 0) out.push(tile("Validation loss", numberText(run.val[val]), `best ${numberText(best)} at step ${countText(run.valStep[run.val.indexOf(best)] ?? 0)}`));
  out.push(tile("Step time", last >= 0 ? timeText(run.stepMs()) : "–", `median of the last ${Math.min(PACE_STEPS, last + 1)} steps`));
  const left = steps ? (steps - step) * run.pace() : NaN;
  if (state === "running" && isFinite(left)) out.push(tile("Time left", spanText(left), `about ${clockText(new Date(Date.now() + 1000 * left))}`));
  else if (last >= 0) out.push(tile(state === "finished" ? "Finished" : "Last step", isFinite(run.time[last]) ? clockText(new Date(1000 * run.time[last])) : "–",
                                    isFinite(run.time[0]) ? `${spanText(run.time[last] - run.time[0])} after the first step` : ""));
  const whole = Math.max(about.budget_bytes, about.planned_bytes);
  if (about.planned_bytes) out.push(tile("Memory used", run.memory ? bytesText(run.memory) : "–",
    `of ${bytesText(about.planned_bytes)} planned` + (about.budget_bytes ? `, budget ${bytesText(about.budget_bytes)}` : ", no budget"), false,
    meter([about.planned_bytes / whole, "planned"], [run.memory / whole, ""])));
  $("tiles").replaceChildren(...out);
}

function header(run) {
  const { about } = run, [state, kind] = run.state;
  $("model").textContent = about.model || run.name;
  $("state").textContent = state;
  $("state").className = `chip ${kind}`;
  $("about").textContent = [run.about.path, about.batch ? `batch ${countText(about.batch)} × ${countText(about.accumulate)}` : "", about.precision, about.device ? `on ${about.device}` : ""].filter(Boolean).join(" · ");
  document.title = `${state === "running" && about.steps && run.last >= 0 ? Math.floor(100 * run.step[run.last] / about.steps) + " % " : ""}${run.name} – plimsoll watch`;
  $("runs").hidden = page.runs.length < 2;
  $("runs").replaceChildren(...page.runs.map((r, i) => element("button", { "aria-pressed": String(i === page.selected), onclick: () => select(i) },
    element("i", { class: "swatch", style: `background:${COLOURS[i % COLOURS.length]}` }), r.name, element("span", { class: "note" }, r.state[0]))));
}

// Losses of one model compare; those of another say nothing beside them, unless all runs are asked for.
const together = (a, b) => page.others ?? a.about.model === b.about.model;

function charts(run) {
  const some = page.runs.some(r => r !== run && together(r, run));
  $("others").hidden = page.runs.length < 2;
  for (const b of $("others").children) b.setAttribute("aria-pressed", String((b.dataset.others === "all") === some));
  const colour = COLOURS[page.selected % COLOURS.length], { loss, lr, ms, norm } = page.charts, series = [];
  page.runs.forEach((r, i) => {
    if (i !== page.selected && together(r, run)) series.push({ name: r.name, colour: COLOURS[i % COLOURS.length], x: r.step, y: r.smooth("loss", page.smooth), other: true });
  });
  series.push({ name: "loss, smoothed", colour, x: run.step, y: run.smooth("loss", page.smooth) });
  if (page.smooth > 0) series.push({ name: "each step", colour, x: run.step, y: run.loss, faint: true });
  if (run.val.length) series.push({ name: "validation", colour: "#d0661b", x: run.valStep, y: run.val, dots: true });
  const own = series.splice(series.findIndex(s => !s.other));
  loss.show([...own, ...series]);
  $("losslegend").replaceChildren(...own.map(s => element("span", {}, element("i", { class: s.dots ? "dot" : "", style: `background:${s.colour};opacity:${s.faint ? .4 : 1}` }), s.name)));
  lr.show([{ name: "learning rate", colour, x: run.step, y: run.lr }]);
  ms.show([{ name: "median of 21", colour, x: run.step, y: run.medianMs() }, { name: "step", colour, x: run.step, y: run.ms, faint: true }]);
  const norms = run.norm.some(isFinite);
  $("norms").hidden = !norms;
  if (norms) norm.show([{ name: "smoothed", colour, x: run.step, y: run.smooth("norm", page.smooth) }, { name: "each step", colour, x: run.step, y: run.norm, faint: true }]);
}

function samples(run) {
  const folders = run.samples.filter(f => f.files.length);
  $("samples").hidden = !folders.length;
  if (!folders.length) return;
  const slider = $("samplestep"), newest = run.shown === undefined || run.shown >= run.sampled - 1;
  slider.max = folders.length - 1;
  if (newest || run.shown >= folders.length) run.shown = folders.length - 1;
  run.sampled = folders.length;
  slider.value = run.shown;
  slider.parentElement.hidden = folders.length < 2;
  const folder = folders[run.shown], key = `${run.index}/${folder.folder}/${folder.files.length}`;
  $("sampleat").textContent = folder.folder ? `step ${countText(Number(folder.folder)) === "NaN" ? folder.folder : countText(Number(folder.folder))}` : "drawn by plimsoll sample";
  if ($("sheet").dataset.key === key) return;
  $("sheet").dataset.key = key;
  const url = f => `file/${run.index}/samples/${folder.folder ? folder.folder + "/" : ""}${f}`, sheets = folder.files.filter(f => !/-\d+\.(png|gif)$/.test(f));
  const shown = (sheets.some(f => /\.(png|gif|webp)$/.test(f)) ? sheets : folder.files).slice(0, 24);
  $("sheet").replaceChildren(...shown.map(f => {
    const media = /\.wav$/.test(f) ? element("audio", { controls: true, preload: "none", src: url(f) })
      : /\.(mp4|webm)$/.test(f) ? element("video", { controls: true, loop: true, muted: true, src: url(f) })
      : element("img", { src: url(f), alt: `${f} of ${folder.folder ? "step " + folder.folder : run.name}`, loading: "lazy", onload: ev => ev.target.classList.toggle("small", ev.target.naturalWidth < 400) });
    return element("figure", {}, media, element("figcaption", {}, f));
  }));
}

function redraw() {
  const run = page.runs[page.selected];
  if (!run) return;
  header(run);
  tiles(run);
  charts(run);
  samples(run);
}

function select(i) { page.selected = i; redraw(); look(); }

async function json(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer.json();
}

async function look() {
  if (page.looking) return;
  page.looking = true;
  let news = page.failed > 0;
  try {
    const told = await json("runs.json");
    told.runs.forEach((about, i) => { page.runs[i] ??= new Run(i, about.name); page.runs[i].about = about; });
    for (const run of page.runs) news = await run.read() || news;
    const run = page.runs[page.selected];
    run.samples = await json(`samples.json?run=${run.index}`);
    const now = JSON.stringify([told, page.selected, run.samples]);
    news = news || now !== page.told;
    page.told = now;
    page.failed = 0;
    $("foot").textContent = `${told.folder}, read every second. plimsoll ${told.version}`;
  } catch (e) {
    page.failed++;
    $("foot").textContent = "plimsoll watch no longer answers: what is shown is what was read last. Start it again and open its new address.";
  }
  page.looking = false;
  if (news || page.failed) redraw();
}

function begin() {
  const root = document.documentElement;
  root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  page.charts = { loss: new Chart("loss", numberText, tickText), lr: new Chart("lr", numberText, tickText), ms: new Chart("ms", timeText, tickTime), norm: new Chart("norm", numberText, tickText) };
  const theme = () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; redraw(); };
  $("theme").addEventListener("click", theme);
  document.addEventListener("keydown", e => { if (e.key === "t" && !e.ctrlKey && !e.metaKey && !/INPUT/.test(document.activeElement.tagName)) theme(); });
  $("smooth").addEventListener("input", e => { page.smooth = e.target.value >= 99 ? .995 : e.target.value / 100; redraw(); });
  $("samplestep").addEventListener("input", e => { page.runs[page.selected].shown = Number(e.target.value); samples(page.runs[page.selected]); });
  for (const b of $("others").children) b.addEventListener("click", () => { page.others = b.dataset.others === "all"; redraw(); });
  for (const b of document.querySelectorAll("[data-scale]")) b.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[data-scale]")) other.setAttribute("aria-pressed", String(other === b));
    page.charts.loss.log = b.dataset.scale === "log";
    redraw();
  });
  window.plimsoll = page;
  look();
  setInterval(look, POLL_MS);
}
begin();
