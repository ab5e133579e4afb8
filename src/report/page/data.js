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
const swatch = cls => element("span", { class: "swatch", style: "background:" + COLOURS[cls] });
