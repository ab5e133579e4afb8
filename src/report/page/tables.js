// tables.js -- sortable tables with bars; every table of the peak adds up to it.
"use strict";

const FIRST_ROWS = 200;

// The words of a command, none of which is divided at its hyphens.
const wordsOf = text => text.split(" ").flatMap((w, i) => [i ? " " : "", element("span", { class: "word" }, w)]);

// columns: [{ title, get(row), text?(row), node?(row), num?, bar?, path?, words? }]; options: sort, bar, colour, foot.
function showTable(box, columns, rows, options = {}) {
  let sorted = options.sort ?? -1, down = true, all = false;
  const draw = () => {
    const order = rows.slice(), c = columns[sorted];
    if (c) order.sort((a, b) => { const x = c.get(a), y = c.get(b), by = typeof x === "number" ? x - y
                                  : String(x).localeCompare(String(y)); return down ? -by : by; });
    const shown = all ? order : order.slice(0, FIRST_ROWS), most = rows.reduce((m, r) => Math.max(m,
        options.bar ? options.bar(r) : 0), 0);
    const head = element("tr", {}, ...columns.map((col, k) => {
      const th = element("th", { class: col.num ? "num" : null, scope: "col" },
                         element("button", { onclick: () => { down = sorted === k ? !down : true; sorted = k; draw(); } },
                                 col.title + (sorted === k ? (down ? " ↓" : " ↑") : "")));
      if (sorted === k) th.setAttribute("aria-sort", down ? "descending" : "ascending");
      return th;
    }), options.bar ? element("th", {}) : null);
    const body = shown.map(r => element("tr", {}, ...columns.map(col => {
      const content = col.node ? col.node(r) : col.text ? col.text(r) : col.num ? countText(col.get(r)) : String(col.get(r) ?? "");
      return element("td", { class: [col.num ? "num" : "", col.path ? "path" : ""].join(" ").trim() || null }, ...(col.words ? wordsOf(content) : [content]));
    }), options.bar ? element("td", { class: "barcell" }, element("div",
                                                                  { class: "hbar", style: `width:${most ? Math.max(0, 100 * options.bar(r) / most) : 0}%;` + (options.colour ? `background:${options.colour(r)}` : "") })) : null));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
    if (options.foot) table.append(element("tfoot", {}, element("tr", {},
                                                                ...options.foot.map((t, k) => element("td",
                                                                    { class: columns[k]?.num ? "num" : null }, t)),
                                                                        options.bar ? element("td", {}) : null)));
    box.replaceChildren(element("div", { class: "scroll", tabindex: 0 }, table));
    if (order.length > shown.length) box.append(element("button", { class: "more-rows", onclick: () => { all = true; draw(); } },
                                                        `Show all ${countText(order.length)} rows`));
  };
  draw();
}

const bytesColumns = whole => [
  { title: "bytes", num: true, get: r => r.bytes },
  { title: "", num: true, get: r => r.bytes, text: r => bytesText(r.bytes) },
  { title: "share", num: true, get: r => r.bytes, text: r => (100 * r.bytes / whole).toFixed(2) + " %" },
];

function peakTables(data, timeline) {
  const e = data.explain, peak = e.peak_bytes, box = document.getElementById("table"), pick = document.getElementById("pick"),
      p = data.peak;
  const foot = n => ["= peak", ...Array(n).fill(""), countText(peak), bytesText(peak), "100 %"];
  const gaps = { bytes: e.classes.gaps };
  const find = text => element("button", { style: "border:0;background:none;padding:0;text-align:left;color:var(--accent)",
                                           title: "show in the timeline",
                                               onclick: () => { const s = document.getElementById("search"); s.value = text;
                                                                timeline.search(text);
                                                                    document.getElementById("timeline").scrollIntoView();
                                                                        } }, text);
  const named = (rows, key) => rows.map(r => ({ ...r, name: r[key] }));
  const by = {
    Classes: () => showTable(box, [{ title: "class", get: r => r.name, node: r => element("span", {}, swatch(r.name),
        " " + r.name) }, ...bytesColumns(peak)],
      Object.entries(e.classes).filter(([, b]) => b).map(([k, bytes]) => ({ name: k === "gaps" ? "(gaps)" : k, bytes })),
          { bar: r => r.bytes, colour: r => COLOURS[r.name], foot: foot(0) }),
    Bottlenecks: () => showTable(box, [{ title: "what", get: r => r.what }, { title: "where", get: r => r.where, path: true },
                                       { title: "buffers", num: true, get: r => r.buffers },
      { title: "each", num: true, get: r => r.each_bytes, text: r => r.each_bytes ? bytesText(r.each_bytes) : "" },
          ...bytesColumns(peak)],
      e.bottlenecks,
          { bar: r => r.bytes, colour: r => COLOURS[r.what.split(" ")[0]], foot: foot(3) }),
    Modules: () => showTable(box, [{ title: "module (own bytes)", get: r => r.name, path: true,
                                     node: r => r.name[0] === "(" ? r.name : find(r.name) },
                                         { title: "buffers", num: true, get: r => r.buffers ?? 0 }, ...bytesColumns(peak),
      { title: "with all below", num: true, get: r => r.total_bytes ?? 0, text: r => bytesText(r.total_bytes ?? r.bytes) }],
          named(e.modules, "module"), { bar: r => r.bytes, foot: [...foot(1), ""] }),
    Lines: () => showTable(box, [{ title: "line of the model", get: r => r.name, path: true,
                                   node: r => r.name[0] === "(" ? r.name : find(r.name) },
                                       { title: "buffers", num: true, get: r => r.buffers ?? 0 }, ...bytesColumns(peak)],
      named(e.lines, "line"), { bar: r => r.bytes, foot: foot(1) }),
    Tensors: () => showTable(box, [{ title: "tensor", get: r => r.name, path: true },
                                   { title: "class", get: r => r.cls, node: r => element("span", {}, swatch(r.cls),
                                       " " + r.cls) }, { title: "shape", get: r => r.shape },
      { title: "line", get: r => r.line, path: true }, { title: "lives, in runs", get: r => r.first,
                                                         text: r => r.always ? "always" : `${countText(r.first)} – ${countText(r.end)}` }, ...bytesColumns(peak)],
      [...p.liveAt(p.peakRun).map(i => ({ name: p.name_(i), cls: CLASSES[p.cls[i]], shape: data.shapes[p.shape[i]],
                                          line: data.lines[p.line[i]], first: p.first[i], end: p.end[i] - 1, always: i < p.nState,
                                              bytes: p.bytes[i] })).sort((a, b) => b.bytes - a.bytes),
        { name: "(gaps)", cls: "(gaps)", shape: "", line: "", always: true, first: 0, end: 0, ...gaps }], { foot: foot(4) }),
    Phases: () => showTable(box, [{ title: "phase", get: r => r.name }, { title: "runs", num: true, get: r => r.repeat },
                                   { title: "every", num: true, get: r => r.every, text: r => r.every ? `${r.every}` : "end" },
                                  { title: "steps", num: true, get: r => r.steps },
      { title: "arena", num: true, get: r => r.peak_bytes }, { title: "", num: true, get: r => r.peak_bytes,
                                                               text: r => bytesText(r.peak_bytes) }], e.phases,
                                                                   { bar: r => r.peak_bytes }),
    Batch: () => showTable(box, [{ title: "the batch as the data gives it", get: r => r.name },
                                 { title: "type", get: r => r.type }, { title: "shape", get: r => r.shape.join(" × ") },
                                     { title: "bytes", num: true, get: r => r.bytes },
      { title: "", get: r => r.view_of ? "a view of " + r.view_of : r.read ? "" : "not read by the step" }], e.batch,
          { foot: ["= batch", "", "", countText(e.batch_bytes), ""] }),
    Avoided: () => showTable(box, [{ title: "never stored here, though a plain implementation would", get: r => r.name,
                                     path: true }, { title: "one", num: true, get: r => r.bytes, text: r => bytesText(r.bytes) },
                                         { title: "how many", num: true, get: r => r.count },
      { title: "all", num: true, get: r => r.total_bytes, text: r => bytesText(r.total_bytes) },
          { title: "why not", get: r => r.reason }], e.avoided, {}),
    Numeric: () => showTable(box, [{ title: "choice that decides rounding", get: r => r.what },
                                   { title: "taken", get: r => r.choice },
                                       { title: "nodes", num: true, get: r => r.nodes ?? 0,
                                         text: r => r.nodes ? countText(r.nodes) : "all" }], e.numeric, {}),
  };
  for (const name of Object.keys(by))
    pick.append(element("button", { "aria-pressed": "false", onclick: ev => {
        for (const b of pick.children) b.setAttribute("aria-pressed", String(b === ev.currentTarget)); by[name](); } }, name));
  pick.children[1].click();
}

function timeChange(slowdown) {
  const by = 100 * (slowdown - 1);
  return Math.abs(by) < .05 ? "±0 %" : (by > 0 ? "+" : "−") + Math.abs(by).toFixed(1) + " %";
}

function whatIfTable(data) {
  const e = data.explain, box = document.getElementById("whatif"), rows = e.what_if;
  if (!rows || !rows.length) { document.getElementById("helps").hidden = true;
                               document.querySelector('nav a[href="#helps"]').remove(); return; }
  const effort = { immediate: "good", short: "fair", long: "bad" }, none = r => r.failed ? "" : null;
  document.getElementById("helpsnote").textContent = `each row re-planned, not estimated; time by ${e.time.source}; immediate: a flag, short: a value of the recipe, long: another model`;
  const list = element("div", {}), believed = element("div", {});
  box.append(list);
  showTable(list, [
    { title: "change", get: r => r.name,
      node: r => element("span", {}, r.name, r.note ? element("span", { class: "sub" }, (r.cut ? "" : r.failed ? "not here: " : "") + r.note) : null) },
    { title: "how", get: r => r.how, path: true, words: true },
    { title: "saves", num: true, get: r => r.failed ? -Infinity : r.saved_bytes, text: r => none(r) ?? bytesText(r.saved_bytes) },
    { title: "peak then", num: true, get: r => r.failed ? Infinity : r.peak_bytes, text: r => none(r) ?? bytesText(r.peak_bytes) },
    { title: "time", num: true, get: r => r.failed ? Infinity : r.slowdown, text: r => none(r) ?? timeChange(r.slowdown) },
    { title: "effort", get: r => ({ immediate: 0, short: 1, long: 2 })[r.effort],
      node: r => element("span", { class: "tag " + (effort[r.effort] || "") }, r.effort) }],
    rows, { bar: r => r.failed ? 0 : Math.max(0, r.saved_bytes) });
  if (e.beliefs && e.beliefs.length) {
    box.append(element("h3", {}, "Believed, but not so"), believed);
    showTable(believed, [{ title: "belief", get: r => r.belief }, { title: "the figures", get: r => r.truth }], e.beliefs, {});
  }
}

// With --budget or --plan: that plan, class by class beside everything kept.
function planTable(data) {
  const e = data.explain, p = e.plan, section = document.getElementById("plan");
  section.hidden = !p.classes;
  if (!p.classes) return;
  const changes = [...p.numeric.map(c => ({ ...c, effect: "rounding may change" })), ...p.exact.map(c => ({ ...c, effect: "changes no number" }))];
  document.getElementById("plannote").textContent = (p.fits ? "within " : "nothing found fits; the smallest, against ") + `${bytesText(e.budget_bytes)}: ` +
    `${bytesText(p.peak_bytes)} (${countText(p.peak_bytes)} bytes), time ${timeChange(p.slowdown)}${p.cut ? "; the search was cut off" : ""}`;
  if (changes.length) showTable(document.getElementById("planchanges"), [{ title: "lever", get: r => r.what }, { title: "from", get: r => r.from },
    { title: "to", get: r => r.to }, { title: "effect", get: r => r.effect }], changes, {});
  const rows = Object.keys(e.classes).filter(k => e.classes[k] || p.classes[k]).map(k => ({ name: k === "gaps" ? "(gaps)" : k, kept: e.classes[k], now: p.classes[k] }));
  showTable(document.getElementById("plantable"), [{ title: "class at the peak", get: r => r.name, node: r => element("span", {}, swatch(r.name), " " + r.name) },
    { title: "everything kept", num: true, get: r => r.kept }, { title: "this plan", num: true, get: r => r.now },
    { title: "saves", num: true, get: r => r.kept - r.now, text: r => bytesText(r.kept - r.now) }], rows,
    { bar: r => r.now, colour: r => COLOURS[r.name], foot: ["= peak", countText(e.peak_bytes), countText(p.peak_bytes), bytesText(e.peak_bytes - p.peak_bytes)] });
}
