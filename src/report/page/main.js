// main.js -- builds the page from its data.
"use strict";

function header(data) {
  const e = data.explain;
  document.getElementById("model").textContent = e.model;
  document.getElementById("about").textContent = `One training step: batch ${countText(e.recipe.batch)} × ${countText(e.recipe.accumulate)}, ${e.recipe.precision}, on ${e.device.name} (${e.device.library}), everything kept. ` +
    `The peak is in phase ${e.peak_phase}, at ${e.peak_node}.` + (e.notes || []).map(note => ` ${note[0].toUpperCase()}${note.slice(1)}.`).join("");
  const state = ["parameters", "gradients", "optimizer", "ema", "master", "constants"].reduce((a, k) => a + e.classes[k], 0);
  const tile = (label, value, more, main) => element("div", { class: main ? "tile main" : "tile" },
                                                     element("div", { class: "label" }, label),
                                                         element("div", { class: "value" }, value),
                                                             element("div", { class: "more" }, more));
  document.getElementById("tiles").append(
    tile("Peak", bytesText(e.peak_bytes), countText(e.peak_bytes) + " bytes", true),
    tile("State at the peak", bytesText(state),
         `${(100 * state / e.peak_bytes).toFixed(1)} % of it: weights, gradients, optimizer, EMA`),
    tile("Activations", bytesText(e.classes.activations + e.classes.attention + e.classes.skips), "attention and skips included"),
    ...(e.minimum_bytes ? [tile("Minimum budget, at most", bytesText(e.minimum_bytes), e.minimum_how)] : []),
    tile("Parameters", countText(e.parameters.count), countText(e.parameters.trainable) + " trained"),
    tile("Step time", timeText(e.time.step_ms), "predicted, " + e.time.source));
  const chips = document.getElementById("budgets");
  for (const b of e.budgets ?? []) {
    const kind = b.verdict === "fits" ? "good" : b.verdict === "replanned" ? "fair" : "bad";
    const words = { fits: "fits as it is", replanned: "fits re-planned", no: "no plan found", unknown: "not searched" }[b.verdict];
    const batch = [b.largest_batch > 0 ? `batch up to ${countText(b.largest_batch)} with everything kept` : "",
                   b.largest_batch_replanned > Math.max(0, b.largest_batch ?? 0) ? `up to ${countText(b.largest_batch_replanned)} re-planned` : ""].filter(Boolean).join(", ");
    chips.append(element("span", { class: "chip " + kind, title: batch },
                         element("b", {}, bytesText(b.budget_bytes)), " " + words,
                         batch ? element("small", {}, `, ${batch.replace(" with everything kept", "")}`) : null));
  }
  document.getElementById("foot").textContent = `Every number here was computed by plimsoll without running the model. Threads ${e.device.threads}. Numbers of a table add up to the peak, gaps (alignment and fragmentation) included.`;
}

function legend(data, timeline) {
  const box = document.getElementById("legend");
  box.replaceChildren();
  const { groups, p } = timeline, bytesOf = new Float64Array(groups.names.length);
  for (const i of data.peak.liveAt(data.peak.peakRun)) bytesOf[groups.of ? groups.of[data.peak.module[i]] : data.peak.cls[i]] += data.peak.bytes[i];
  groups.names.forEach((name, c) => {
    const bytes = bytesOf[c];
    let used = bytes > 0;
    for (let i = 0; !used && i < p.n; i++) used = p.grp[i] === c;
    if (!used) return;
    box.append(element("button", { "aria-pressed": String(timeline.only === c), title: "show only " + name,
                                   onclick: () => { timeline.only = timeline.only === c ? -1 : c; timeline.draw();
                                                    legend(data, timeline); } },
      patch(groups.colours[c]), name, element("span", { class: "bytes" }, bytesText(bytes))));
  });
  if (timeline.plan && timeline.view === "live")
    box.append(element("span", { class: "key" }, element("i", { class: "planline" }), timeline.plan.many > 1 ? `the plan, ${countText(timeline.plan.many)} micro-batches of ${countText(timeline.plan.batch)}` : "the plan"));
}

function detail(data, timeline) {
  const box = document.getElementById("detail"), p = timeline.p, i = timeline.hover >= 0 ? timeline.hover : timeline.pinned;
  box.replaceChildren();
  if (i < 0) { box.append(element("div", { class: "empty" },
                                  "Point at a buffer, or choose one with ↑ and ↓, to see what it is for and how long it lives.")); return; }
  const state = i < p.nState, cell = (k, ...v) => element("div", {}, element("span", { class: "k" }, k), ...v);
  const last = Math.min(p.end[i], p.runs) - 1;
  box.append(
    element("div", {}, element("b", { class: "mono" }, p.name_(i)), element("br"), swatch(CLASSES[p.cls[i]]),
            " " + CLASSES[p.cls[i]] + (timeline.pinned === i ? ", pinned" : "")),
    cell("size", `${bytesText(p.bytes[i])}`, element("br"), countText(p.bytes[i]) + " bytes"),
    cell("shape", data.shapes[p.shape[i]] || "workspace of one call"),
    cell("produced at", state ? "there throughout" : `run ${countText(p.first[i])}`, element("br"),
         element("span", { class: "mono" }, data.lines[p.line[i]])),
    cell(state ? "placed at" : "read last by", state ? `byte ${countText(p.offset[i])}`
         : `run ${countText(last)}: ${p.runText(last)}`));
}

function start() {
  const root = document.documentElement;
  root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const data = readData();
  header(data);
  const timeline = new Timeline(data), search = document.getElementById("search"), found = document.getElementById("found");
  const map = new Treemap(data, path => { search.value = path; timeline.search(path); });
  planTable(data);
  whatIfTable(data);
  curveChart(data);
  peakTables(data, timeline);
  legend(data, timeline);
  detail(data, timeline);
  timeline.listeners.push(() => {
    detail(data, timeline);
    const f = timeline.found;
    found.textContent = f ? `${countText(f.count)} buffers, ${bytesText(f.atPeak)} at the peak, at most ${bytesText(f.most)}` : "";
  });
  search.addEventListener("input", () => timeline.search(search.value));
  search.addEventListener("keydown", e => { if (e.key === "Escape") { search.value = ""; timeline.search("");
                                                                      timeline.plot.focus(); } });
  const programs = document.getElementById("programs");
  for (const p of data.programs)
    programs.append(element("button", { "aria-pressed": String(p === timeline.p),
                                        onclick: e => { for (const b of programs.children) b.setAttribute("aria-pressed",
                                            String(b === e.currentTarget)); timeline.use(p); legend(data, timeline);
                                                } }, p.name));
  programs.hidden = data.programs.length < 2;
  const colours = document.getElementById("colours"), byClass = timeline.groups, byModule = moduleGroups(data, data.peak);
  for (const b of colours.children) b.addEventListener("click", () => {
    for (const other of colours.children) other.setAttribute("aria-pressed", String(other === b));
    timeline.colourBy(b.dataset.colour === "module" ? byModule : byClass);
    legend(data, timeline);
  });
  const views = document.getElementById("views");
  const show = view => { for (const b of views.children) b.setAttribute("aria-pressed", String(b.dataset.view === view));
                         timeline.show(view); legend(data, timeline); };
  for (const b of views.children) b.addEventListener("click", () => show(b.dataset.view));
  const theme = () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; timeline.draw(); };
  document.getElementById("theme").addEventListener("click", theme);
  document.addEventListener("keydown", e => {
    if (e.target === search || e.ctrlKey || e.metaKey || e.altKey) return;
    const keys = { "/": () => search.focus(), t: theme, p: () => timeline.goToPeak(),
                   a: () => show(timeline.view === "live" ? "arena" : "live") };
    if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
  });
  window.plimsoll = { data, timeline, map };           // for the console and for tests
}
document.addEventListener("DOMContentLoaded", start);
