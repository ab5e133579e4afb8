// data.js -- the page's data: columns unpacked into typed arrays, and numbers as text.
"use strict";

const CLASSES = ["parameters", "gradients", "optimizer", "ema", "master", "constants", "inputs", "skips", "attention",
                 "activations", "workspace"];
const COLOURS = { parameters: "#4a7fc1", gradients: "#2fa394", optimizer: "#83a6dc", ema: "#9a86d1", master: "#b7a9e4",
                  constants: "#94a0b3",
  inputs: "#bd9468", skips: "#e6c24f", attention: "#e4694b", activations: "#f2a65e", workspace: "#c43d63", "(gaps)": "#c3cad3" };

function unpack(text, n, differences) {            // LEB128 in base64; see explain_html.c
  const raw = atob(text), out = new Float64Array(n);
  for (let i = 0, at = 0, before = 0; i < n; i++) {
    let value = 0, scale = 1, byte;
    do {
      byte = raw.charCodeAt(at++);
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    if (differences) {
      before += value % 2 ? -(value + 1) / 2 : value / 2;
      value = before;
    }
    out[i] = value;
  }
  return out;
}

// The times at which runs begin, in milliseconds, and at last the end. Without any cost every run takes one unit.
function runTimes(ns) {
  const time = new Float64Array(ns.length + 1), free = !ns.some(v => v > 0);
  for (let t = 0; t < ns.length; t++) time[t + 1] = time[t] + (free ? 1 : ns[t] / 1e6);
  return time;
}

// The run in progress at a time.
function runAtTime(p, time) {
  let lo = 0, hi = p.runs - 1;
  while (lo < hi) { const mid = (lo + hi + 1) >> 1; if (p.time[mid] <= time) lo = mid; else hi = mid - 1; }
  return lo;
}

// Modules as a few groups: the largest is divided into its children while there is room for them.
const MODULE_COLOURS = ["#4a7fc1", "#e4694b", "#2fa394", "#e6c24f", "#9a86d1", "#c43d63", "#7fb069", "#f2a65e", "#4fb3c9", "#b07aa1", "#bd9468"];
function moduleGroups(data, program) {
  const n = data.modules.length, total = new Float64Array(n), children = Array.from({ length: n }, () => []);
  for (const i of program.liveAt(program.peakRun)) total[program.module[i]] += program.bytes[i];
  for (let i = n - 1; i >= 0; i--) if (data.parents[i] >= 0) { total[data.parents[i]] += total[i]; children[data.parents[i]].unshift(i); }
  let groups = [0];
  for (;;) {
    const big = groups.filter(g => children[g].some(c => total[c] > 0)).sort((a, b) => total[b] - total[a])
      .find(g => groups.length - 1 + children[g].filter(c => total[c] > 0).length <= MODULE_COLOURS.length);
    if (big === undefined) break;
    groups = groups.flatMap(g => g === big ? children[g].filter(c => total[c] > 0) : [g]);
  }
  const of = new Uint8Array(n), rest = groups.length;
  for (let i = 0; i < n; i++) { let up = i; while (up >= 0 && !groups.includes(up)) up = data.parents[up]; of[i] = up < 0 ? rest : groups.indexOf(up); }
  return { of, names: [...groups.map(g => data.modules[g] || "(model)"), "(other)"], colours: [...groups.map((_, i) => MODULE_COLOURS[i]), "#94a0b3"] };
}

function unpackBuffers(b) {
  return { n: b.n, first: unpack(b.first, b.n, true), length: unpack(b.length, b.n, false), bytes: unpack(b.bytes, b.n, true),
    offset: unpack(b.offset, b.n, true), cls: Uint8Array.from(unpack(b.class, b.n, false)),
        module: Int32Array.from(unpack(b.module, b.n, true)),
    name: Int32Array.from(unpack(b.name, b.n, true)), line: Int32Array.from(unpack(b.line, b.n, true)),
        shape: Int32Array.from(unpack(b.shape, b.n, true)) };
}

// A program's buffers and the persistent state as one list, in the order in which they are stacked:
// state first, then by class, then by when they begin.
class Program {
  constructor(data, p, state) {
    const own = unpackBuffers(p.buffers), n = own.n + state.n;
    Object.assign(this, { data, name: p.name, runs: p.runs, peakRun: p.peakRun, peakBytes: p.peakBytes, liveBytes: p.liveBytes,
                          n });
    this.live = unpack(p.live, p.runs, true);
    this.time = runTimes(unpack(p.ns, p.runs, false));
    this.total = this.time[p.runs];
    this.runModule = Int32Array.from(unpack(p.runModule, p.runs, true));
    this.runName = Int32Array.from(unpack(p.runName, p.runs, true));
    this.runKind = Uint8Array.from(unpack(p.runKind, p.runs, false));
    const order = new Int32Array(n).map((_, i) => i), isState = i => i >= own.n;
    const get = (key, i) => isState(i) ? state[key][i - own.n] : own[key][i];
    order.sort((a, b) => isState(b) - isState(a) || get("cls", a) - get("cls", b) || get("first", a) - get("first", b) || a - b);
    this.first = new Int32Array(n); this.end = new Int32Array(n); this.bytes = new Float64Array(n);
        this.offset = new Float64Array(n);
    this.cls = new Uint8Array(n); this.module = new Int32Array(n); this.nameOf = new Int32Array(n); this.line = new Int32Array(n);
        this.shape = new Int32Array(n);
    for (let k = 0; k < n; k++) {
      const i = order[k], s = isState(i);
      this.first[k] = s ? 0 : own.first[i];
      this.end[k] = s ? p.runs : own.first[i] + own.length[i] + 1;
      this.bytes[k] = get("bytes", i); this.offset[k] = get("offset", i); this.cls[k] = get("cls", i);
      this.module[k] = get("module", i); this.nameOf[k] = get("name", i); this.line[k] = get("line", i);
          this.shape[k] = get("shape", i);
    }
    this.nState = state.n;
    this.grp = this.cls;
  }
  at(time) { return runAtTime(this, time); }
  middle(t) { return (this.time[t] + this.time[t + 1]) / 2; }
  // Stacks buffers by class (groupOf null) or by group of modules.
  stackBy(groupOf) {
    const { n, nState } = this, key = i => groupOf ? groupOf[this.module[i]] : this.cls[i];
    const order = new Int32Array(n).map((_, i) => i);
    order.sort((a, b) => (b < nState) - (a < nState) || key(a) - key(b) || this.first[a] - this.first[b] || a - b);
    for (const name of ["first", "end", "bytes", "offset", "cls", "module", "nameOf", "line", "shape"]) this[name] = this[name].map((_, k, old) => old[order[k]]);
    this.grp = groupOf ? Uint8Array.from(this.module, m => groupOf[m]) : this.cls;
    this.texts = null;
  }
  name_(i) { const s = this.data.names[this.nameOf[i]]; return s[0] === "." ? this.data.modules[this.module[i]] + s : s; }
  runText(t) { const s = this.data.names[this.runName[t]]; return s[0] === "." ? this.data.modules[this.runModule[t]] + s : s; }
  text(i) {                                          // what a search looks at
    const d = this.data;
    return (this.name_(i) + " " + d.modules[this.module[i]] + " " + d.lines[this.line[i]] + " " + d.shapes[this.shape[i]] + " " + CLASSES[this.cls[i]]).toLowerCase();
  }
  liveAt(t) { const out = []; for (let i = 0; i < this.n; i++) if (this.first[i] <= t && t < this.end[i]) out.push(i); return out;
              }
}

function readData() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const state = unpackBuffers(data.state);
  data.programs = data.programs.map(p => new Program(data, p, state));
  for (const plan of data.planned) {
    plan.live = unpack(plan.live, plan.runs, true);
    plan.time = runTimes(unpack(plan.ns, plan.runs, false));
  }
  data.peak = data.programs.reduce((a, b) => b.peakBytes > a.peakBytes ? b : a);
  return data;
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0, v = Math.abs(bytes);
  while (v >= 1024 && u < 4) { v /= 1024; u++; }
  return (bytes < 0 ? "−" : "") + (u === 0 || v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2)) + " " + units[u];
}
const countText = n => Math.round(n).toLocaleString("en-US");
function timeText(ms) {
  return ms >= 120000 ? (ms / 60000).toFixed(1) + " min" : ms >= 1000 ? (ms / 1000).toFixed(ms >= 10000 ? 0
      : 1) + " s" : ms.toFixed(ms >= 10 ? 0 : 1) + " ms";
}
function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {}))
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v); else if (v !== undefined && v !== null &&
                                                                        v !== false) e.setAttribute(k, v === true ? "" : v);
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}
const patch = colour => element("span", { class: "swatch", style: "background:" + colour });
const swatch = cls => element("span", { class: "swatch", style: "background:" + COLOURS[cls] });
