"use strict";
// Draws a report from its embedded data. No library; every text goes through textContent.
(() => {
const ALL = JSON.parse(document.getElementById("data").textContent);
let DATA = ALL.reports[0];
const $ = (id) => document.getElementById(id);
const format = (value, digits = 0) => value.toLocaleString("en-US", { maximumFractionDigits: digits });
const percent = (share) => `${format(share * 100, share > 0 && share < 0.1 ? 1 : 0)}%`;
const counted = (count, what) => `${format(count)} ${what}${count === 1 ? "" : "s"}`;
const hex = (byte) => `0x${byte.toString(16)}`;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const sum = (values) => values.reduce((total, value) => total + value, 0);
const colours = new Map();
/** A colour of the theme. */
function css(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
}

/** An element with attributes and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) => typeof child === "number" ? format(child, 2) : child));
  return made;
}

function table(heads, rows, caption) {
  const isNumber = heads.map((_, k) => rows.length > 0 && rows.every((row) => row[k] === "" || /^(–|[\d,.]+%?)$/.test(String(row[k]))));
  const cells = (row, tag) => row.map((cell, k) => make(tag, { class: isNumber[k] ? "number" : null, scope: tag === "th" ? "col" : null }, cell));
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    make("table", {}, make("thead", {}, make("tr", {}, ...cells(heads, "th"))), make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row, "td"))))));
}

// --- the state: the target that is shown, and links between places

let target = DATA.shown;
const now = () => DATA.targets[target];
const lineId = (file, line) => `L${DATA.sources.findIndex((source) => source.file === file)}-${line}`;
const placeText = (where) => where ? `${where.file}${where.file.startsWith("In [") ? ", line " : ":"}${where.line}` : "";
function placeLink(where, text = placeText(where)) {
  const source = where && DATA.sources.find((each) => each.file === where.file);
  const isShown = source && where.line >= source.first_line && where.line < source.first_line + source.text.split("\n").length;
  return isShown ? make("a", { href: `#${lineId(where.file, where.line)}` }, text) : text;
}
const code = (finding) => [finding.rule, finding.kind].filter(Boolean).join(", ");
const levelOf = (finding) => make("span", { class: `level ${finding.level}` }, finding.level);

// --- tooltip

const tip = $("tip");
function showTip(text, event) {
  tip.textContent = text;
  tip.hidden = !text;
  if (!text) return;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${clamp(event.clientX + 14, 4, innerWidth - box.width - 8)}px`;
  tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18}px`;
}
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

// --- summary

function card(what, value, more, level) {
  return make("div", { class: "card" }, make("span", { class: "quiet" }, what), make("b", { class: level }, value), make("span", { class: "quiet" }, more || ""));
}

function drawSummary(body) {
  const own = now(), line = own.timeline, traffic = own.traffic || [];
  const names = Object.keys(DATA.targets), chosen = (test) => names.filter((name) => test(DATA.targets[name]));
  const accepted = chosen((each) => each.accepted), refused = chosen((each) => each.refused), wrong = chosen((each) => !each.accepted && !each.refused);
  const others = [refused.length ? `refused by ${refused.join(", ")}` : "", wrong.length ? `not accepted by ${wrong.join(", ")}` : ""].filter(Boolean);
  const verdict = own.ok && !own.ran ? "nothing ran" : own.ok ? ["clean", ...own.levels].join(", ") : own.levels.join(", ");
  const moved = sum(traffic.map((each) => each.bytes_moved)), used = sum(traffic.map((each) => each.bytes_used));
  const memory = (own.memory || []).map((each) => `${each.name} ${format(each.used)}${each.size ? ` of ${format(each.size)}` : ""}`);
  const launch = line && line.blocks > 1 ? `; ${counted(line.blocks, "block")} on ${counted(line.cores, "core")}` : "";
  body.append(make("div", { class: "cards" },
    card(`verdict of ${target}`, verdict, own.extent, !own.ok ? "error" : own.ran ? "ok" : null),
    card("accepted by", accepted.join(", ") || "no target", others.join("; ") || "all that were asked"),
    line ? card("cycles", format(line.cycles), (line.microseconds === null ? "" : `${format(line.microseconds, 2)} µs at ${line.clock} GHz`) + launch) : null,
    line && traffic.length ? card("global memory", `${format(moved)} bytes`, moved ? `${percent(used / moved)} of them used` : "") : null,
    memory.length ? card("on chip", memory.join("; "), "bytes") : null));
  if (line && (line.limits.length || line.advice.length)) {
    body.append(make("h3", {}, "What takes the time"), make("ul", {}, ...line.limits.map((text) => make("li", {}, text)),
      ...line.advice.map((each) => make("li", {}, each.text, " ", placeLink(each.where)))));
  }
  body.append(make("h3", {}, own.findings.length ? `Findings: ${own.levels.join(", ")}` : "No findings"));
  if (own.findings.length) body.append(make("ol", { class: "findings" }, ...own.findings.map((each) => findingItem(each, `${target}-${each.id}`))));
  if (own.repairs && own.repairs.some((repair) => repair.kind === "order")) body.append(make("p", {}, make("a", { href: "#repair" }, "A repair of the flags"), " is shown below the source."));
  if (line && traffic.length) body.append(make("h3", {}, "Traffic"), trafficTable(traffic));
}

function findingItem(finding, id) {
  const calls = finding.calls.filter(Boolean).flatMap((call) => [", called from ", placeLink(call)]);
  return make("li", { id, tabindex: id ? -1 : null }, levelOf(finding), ` [${code(finding)}] `, finding.message, " ", placeLink(finding.where), ...calls,
    finding.fix ? make("div", { class: "quiet" }, `fix: ${finding.fix}`) : null);
}

function trafficTable(traffic) {
  const rows = traffic.map((each) => [each.instruction, placeLink(each.where), format(each.executions), format(each.transactions), format(each.bursts), format(each.bytes_moved), format(each.bytes_used), percent(each.efficiency)]);
  return table(["instruction", "place", "executions", "transactions", "bursts", "bytes moved", "bytes used", "efficiency"], rows, "Traffic to global memory");
}

// --- source

function drawSource(body) {
  const own = now();
  if (!DATA.sources.length) body.append(make("p", { class: "quiet" }, "The source is not available."));
  DATA.sources.forEach((source, number) => {
    const costs = (own.lines || {})[source.file] || {};
    const found = new Map();
    for (const finding of own.findings) {
      if (finding.where && finding.where.file === source.file) found.set(finding.where.line, [...(found.get(finding.where.line) || []), finding]);
    }
    const rows = source.text.split("\n").flatMap((text, k) => sourceRows(number, source.first_line + k, text, costs, found));
    body.append(make("h3", {}, source.file), make("div", { class: "scroll code", tabindex: 0, role: "region", "aria-label": `Source of ${source.file}` },
      make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col", class: "number" }, "line"), make("th", { scope: "col" }, own.timeline ? "cycles" : ""), make("th", { scope: "col" }, source.language))), make("tbody", {}, ...rows))));
  });
  drawRepairs(body, own.repairs || []);
}

const REPAIRS = { order: "Repair", needless: "What nothing needs" };
function drawRepairs(body, repairs) {
  repairs.forEach((repair, k) => {
    body.append(make("h3", { id: k ? null : "repair" }, REPAIRS[repair.kind] || repair.kind), make("pre", { tabindex: 0, role: "region", "aria-label": `Text of repair ${k + 1}` }, repair.text));
    if (repair.diff) body.append(make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Repair ${k + 1} as a diff` }, diff(repair.diff)));
  });
}

function sourceRows(number, line, text, costs, found) {
  const cost = costs[line];
  const share = cost ? [make("span", { class: "meter", style: `width:${Math.max(2, cost.share * 50)}px` }), ` ${percent(cost.share)}`] : [];
  const remarks = (found.get(line) || []).map((finding) => make("tr", {}, make("td", {}), make("td", {}),
    make("td", { class: `remark at-${finding.level}` }, levelOf(finding), ` [${code(finding)}] ${finding.message}`, finding.fix ? `\nfix: ${finding.fix}` : "", "\n", make("a", { href: `#${target}-${finding.id}` }, "in the summary"))));
  const about = cost ? Object.entries(cost.busy).map(([pipe, cycles]) => `${pipe}: ${format(cycles)} cycles`).join("\n") : null;
  return [make("tr", { id: `L${number}-${line}`, class: found.has(line) ? "found" : null },
    make("td", { class: "no" }, String(line)), make("td", { class: "cost", title: about }, ...share), make("td", {}, text || " ")), ...remarks];
}

function diff(text) {
  const kind = (line) => line.startsWith("+") && !line.startsWith("+++") ? "add" : line.startsWith("-") && !line.startsWith("---") ? "del" : "";
  return make("pre", { class: "diff" }, ...text.replace(/\n$/, "").split("\n").map((line) => make("span", { class: kind(line), style: "display:block" }, line || " ")));
}

// --- pictures: a canvas whose boxes can be hovered, clicked and chosen by keys

let pictures = [];
const redrawAll = () => { for (const picture of pictures) picture.draw(); };

class Picture {
  /** `paint(picture, context, width)` draws, and calls `box` for what can be pointed at; `items` is what keys go through. */
  constructor(label, height, paint, items = [], hint = "N and P, or the arrow keys, go through what it shows.") {
    this.paint = paint; this.height = height; this.items = items; this.boxes = []; this.lines = []; this.chosen = null; this.width = 800;
    this.canvas = make("canvas", { height, "aria-hidden": "true" });
    this.text = make("output", { "aria-live": "polite" });
    this.node = make("div", { class: "plot", tabindex: 0, role: "application", "aria-label": `${label}. ${hint}` }, this.canvas);
    this.context = this.canvas.getContext("2d");
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("click", (event) => { const item = this.at(event); if (item) this.choose(item); });
    this.canvas.addEventListener("pointerleave", () => showTip(""));
    pictures.push(this);
  }
  get keys() { return { n: () => this.step(1), p: () => this.step(-1), ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1), Enter: () => this.follow() }; }
  key(event) {
    const action = this.keys[event.key];
    if (action && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); action(); }
  }
  step(by) {
    const at = this.items.indexOf(this.chosen?.one ?? this.chosen);
    if (this.items.length) this.choose(this.items[clamp(at + by, 0, this.items.length - 1)]);
  }
  choose(item) {
    this.chosen = item;
    this.text.replaceChildren(item.text(), item.where ? "\n" : "", item.where ? placeLink(item.where) : "");
    this.draw();
  }
  follow() { this.text.querySelector("a")?.click(); }
  /** The point of an event, in the canvas. */
  point(event) { const box = this.canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; }
  at(event) {
    const [x, y] = this.point(event);
    const box = this.boxes.findLast((each) => x >= each.x - 1 && x <= each.x + each.w + 1 && y >= each.y - 1 && y <= each.y + each.h + 1);
    return box ? box.item : this.lines.findLast((each) => distance(x, y, each) < 4)?.item ?? (this.empty ? this.empty(x, y) : null);
  }
  move(event) { showTip(this.at(event)?.text() ?? "", event); }
  box(x, y, w, h, item) {
    this.boxes.push({ x, y, w, h, item });
    if (this.chosen && (item.one ?? item) === (this.chosen.one ?? this.chosen)) { const c = this.context; c.strokeStyle = css("--text"); c.lineWidth = 2; c.strokeRect(x - 2, y - 2, w + 4, h + 4); }
  }
  draw() {
    const ratio = devicePixelRatio || 1, width = this.width = this.canvas.clientWidth || 800, c = this.context;
    this.canvas.width = width * ratio; this.canvas.height = this.height * ratio; this.canvas.style.height = `${this.height}px`;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, this.height);
    c.font = "12px system-ui, sans-serif"; c.textBaseline = "middle"; c.textAlign = "left";
    this.boxes = []; this.lines = [];
    this.paint(this, c, width);
  }
}

/** The distance of a point from a line. */
function distance(x, y, { x0, y0, x1, y1 }) {
  const length = (x1 - x0) ** 2 + (y1 - y0) ** 2, share = length ? clamp(((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length, 0, 1) : 0;
  return Math.hypot(x - x0 - share * (x1 - x0), y - y0 - share * (y1 - y0));
}

/** Round numbers from `low` to `high`, about `most` of them. */
function ticks(low, high, most = 6) {
  const span = Math.max(high - low, 1e-9), step = 10 ** Math.floor(Math.log10(span / most));
  const nice = [1, 2, 5, 10].map((k) => k * step).find((k) => span / k <= most) || span;
  const found = [];
  for (let value = Math.ceil(low / nice) * nice; value <= high + nice * 1e-6; value += nice) found.push(value || 0);
  return found;
}

// --- pictures over time share one view: zoom and pan move all of them

const view = { from: 0, to: 1, whole: 1, block: 0 };
const LEFT = 100, RIGHT = 8;
const zoomed = () => { for (const picture of pictures) if (picture instanceof Plot) picture.draw(); };

function setView(from, to) {
  const span = clamp(to - from, Math.max(view.whole / 1e6, 1e-3), view.whole);
  view.from = clamp(from, 0, view.whole - span);
  view.to = view.from + span;
  zoomed();
}
function zoom(factor, at = (view.from + view.to) / 2) { setView(at - (at - view.from) * factor, at + (view.to - at) * factor); }
function pan(share) { const by = (view.to - view.from) * share; setView(view.from + by, view.to + by); }

/** Items of one row in the order of time. */
class Lane {
  constructor(items) {
    this.items = items.toSorted((a, b) => a.start - b.start);
    let end = -Infinity;
    this.ends = this.items.map((item) => { end = Math.max(end, item.end); return end; });
  }
  /** The first position from `low` at which a condition holds, which holds from there on. */
  first(holds, low = 0) {
    let high = this.items.length;
    while (low < high) { const middle = (low + high) >> 1; if (holds(middle)) high = middle; else low = middle + 1; }
    return low;
  }
  get(from, to) { return [this.first((k) => this.ends[k] >= from), this.first((k) => this.items[k].start > to)]; }
  /** `show(item, count)` for what a view shows; of items that share a pixel one, with their number. */
  visible(from, to, pixel, show) {
    let [k, last] = this.get(from, to);
    while (k < last) {
      const item = this.items[k], edge = Math.max(item.start, from) + pixel;
      let next = k + 1;
      if (item.end < edge) {
        next = Math.max(next, this.first((n) => this.items[n].start >= edge, next));
        if (next - 1 > k && this.items[next - 1].end >= edge) next -= 1;
      }
      show(item, next - k);
      k = next;
    }
  }
}

class Plot extends Picture {
  constructor(label, height, paint, items) {
    super(label, height, (self, c, width) => { this.drawn = 0; paint(self, c, width); this.axis(c, width); }, items, "Arrow keys pan, plus and minus zoom, Home shows all, N and P go through what it shows, Enter goes to the source.");
    this.node.addEventListener("wheel", (event) => { if (event.ctrlKey || event.shiftKey || event.altKey) { event.preventDefault(); zoom(event.deltaY > 0 || event.deltaX > 0 ? 1.25 : 0.8, this.time(this.point(event)[0])); } }, { passive: false });
    this.canvas.addEventListener("dblclick", (event) => zoom(0.5, this.time(this.point(event)[0])));
    this.canvas.addEventListener("pointerdown", (event) => { this.drag = { x: event.clientX, from: view.from, to: view.to }; this.canvas.setPointerCapture(event.pointerId); });
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => { this.drag = null; });
  }
  get keys() { return { ...super.keys, ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), Home: () => setView(0, view.whole) }; }
  /** Cycles of one pixel. */
  get pixel() { return (view.to - view.from) / Math.max(1, this.width - LEFT - RIGHT); }
  x(time) { return LEFT + (time - view.from) / this.pixel; }
  time(x) { return clamp(view.from + (x - LEFT) * this.pixel, view.from, view.to); }
  choose(item) {
    if (item.start < view.from || item.end > view.to) { const span = view.to - view.from; setView(item.start - span / 4, item.start + span * 3 / 4); }
    super.choose(item);
  }
  move(event) {
    if (!this.drag) return super.move(event);
    const by = (this.drag.x - event.clientX) * this.pixel;
    setView(this.drag.from + by, this.drag.to + by);
  }
  /** A bar from `start` to `end` of an item, with its name if there is space. */
  bar(item, y, h, colour, name, count = 1) {
    const c = this.context, x = this.x(item.start), w = Math.max(1, this.x(item.end) - x), left = Math.max(x, LEFT);
    this.drawn += 1;
    c.fillStyle = colour; c.fillRect(x, y, w, h);
    if (h > 10 && x + w - left > 7 * name.length + 8) { c.fillStyle = css("--back"); c.textAlign = "left"; c.fillText(name, left + 5, y + h / 2 + 1); }
    const more = count > 1 ? { ...item, one: item, text: () => `${item.text()}\nand ${format(count - 1)} more at this pixel: zoom in` } : item;
    this.box(x, y, w, h, more);
    return [x, w];
  }
  inside(paint) {
    const c = this.context;
    c.save(); c.beginPath(); c.rect(LEFT, 0, this.width - LEFT - RIGHT + 4, this.height - 20); c.clip();
    paint(); c.restore();
  }
  axis(c, width) {
    const digits = view.to - view.from < 20 ? 2 : 0;
    c.fillStyle = css("--quiet"); c.textAlign = "center";
    for (const time of ticks(view.from, view.to, clamp(Math.floor((width - LEFT) / 90), 2, 8))) c.fillText(format(time, digits), clamp(this.x(time), LEFT + 10, width - 30), this.height - 9);
    c.textAlign = "left"; c.fillText("cycles", 6, this.height - 9);
  }
}

// --- timeline

const LANE = 26, MOST_ARROWS = 1500;
const pipeColour = (k) => css(`--p${k % 8}`);
const statementName = (statement) => statement ? statement.instruction || statement.text.match(/(\w+)\(/)?.[1] || statement.text : "scalar";

/** The pieces of work of a block, with what each waited for. */
function workItems(line, block) {
  const held = new Map(), ends = line.pipes.map(() => 0);
  for (const [src, , dst, end, kind, id, at, isHeld, after, before] of line.arrows) {
    if (!isHeld || at !== block) continue;
    const key = `${dst}/${before}`;
    if (!held.has(key)) held.set(key, []);
    held.get(key).push({ end, text: `waited for ${line.pipes[src].id}: ${kind}${id ? ` ${id}` : ""}${after >= 0 ? ` after ${statementName(line.statements[after])}` : ""}` });
  }
  for (const each of held.values()) each.sort((a, b) => a.end - b.end);
  const works = line.works.filter((work) => work[4] === block).sort((a, b) => a[1] - b[1]);
  return works.map(([pipe, start, end, number, , critical]) => {
    const idle = Math.max(0, start - ends[pipe]), queue = held.get(`${pipe}/${number}`) || [], waits = [];
    ends[pipe] = Math.max(ends[pipe], end);
    while (queue.length && queue[0].end <= start + 1e-6) waits.push(queue.shift().text);
    const item = { pipe, start, end, number, critical, idle, waits, statement: line.statements[number], where: line.statements[number]?.where };
    item.text = () => workText(line, item);
    return item;
  });
}

function workText(line, work) {
  const statement = work.statement;
  const operands = statement ? statement.operands.map((each) => `${each.role}: ${each.name} (${each.memory}, ${each.access})`) : [];
  return [statement ? statement.text : "load_scalar", `${line.pipes[work.pipe].id}: cycle ${format(work.start)} to ${format(work.end)}, ${counted(work.end - work.start, "cycle")}${work.critical ? ", on the critical path" : ""}`,
    ...operands, statement && statement.nbytes ? `${format(statement.nbytes)} bytes of global memory` : null, ...new Set(work.waits), work.idle >= 1 ? `its pipe was idle for ${counted(work.idle, "cycle")} before` : null, statement && statement.where ? placeText(statement.where) : null].filter(Boolean).join("\n");
}

function arrowItem(line, [src, start, dst, end, kind, id, , isHeld, after, before]) {
  const names = [after, before].map((number) => number >= 0 ? statementName(line.statements[number]) : "");
  return { src, dst, start, end, kind, isHeld, where: line.statements[before]?.where, text: () => `${kind}${id ? ` ${id}` : ""}: ${line.pipes[src].id} to ${line.pipes[dst].id}\nset at ${format(start)}${names[0] ? ` after ${names[0]}` : ""}, waited for until ${format(end)}${names[1] ? ` before ${names[1]}` : ""}\n${isHeld ? "the waiting pipe was held" : "the waiting pipe was not held"}` };
}

function drawTimeline(body) {
  const line = now().timeline;
  if (!line) { body.append(make("p", { class: "quiet" }, now().refused ? `${target} refuses the program, so there is no timeline.` : `${target} has no pipes, so it has no timeline.`)); return; }
  const blocks = [...new Set(line.works.map((work) => work[4]))];
  const shown = { lanes: [], arrows: new Lane([]), counter: new Lane([]) };
  const arrows = make("input", { type: "checkbox", checked: true, onchange: zoomed });
  const plot = new Plot("Timeline", line.pipes.length * LANE + 40 + 26, (self, c) => paintTimeline(self, c, line, shown, arrows.checked), []);
  const list = make("details", {}, make("summary", {}, "All work as a table"));
  const showWorks = () => { if (list.open) list.replaceChildren(list.firstChild, worksTable(line, plot.items)); };
  const showBlock = (block) => {
    view.block = block; plot.chosen = null; plot.text.replaceChildren();
    plot.items = workItems(line, block);
    shown.lanes = line.pipes.map((_, pipe) => new Lane(plot.items.filter((item) => item.pipe === pipe)));
    shown.arrows = new Lane(line.arrows.filter((arrow) => arrow[6] === block).map((arrow) => arrowItem(line, arrow)));
    shown.counter = new Lane(block === line.longest ? counterItems(line) : []);
    showWorks();
  };
  const select = make("select", { onchange: () => { showBlock(Number(select.value)); zoomed(); } },
    ...blocks.map((block) => make("option", { value: block, selected: block === line.longest }, `block ${block}${block === line.longest ? " (longest)" : ""}`)));
  showBlock(line.longest);
  list.addEventListener("toggle", showWorks);
  const kept = blocks.length < line.blocks || line.dropped ? make("p", { class: "quiet" }, `Kept: ${counted(line.works.length, "piece")} of work of ${format(blocks.length)} of ${counted(line.blocks, "block")}; ${format(line.dropped)} more ran.${line.drawn < line.longest_cycles ? ` Work of the longest block after cycle ${format(line.drawn)} is not drawn; cycles of lines and statements are of all work.` : ""}${line.in_flight_merged > 1 ? ` Of each ${format(line.in_flight_merged)} changes of the bytes moving, the largest value is drawn.` : ""}`) : "";
  body.append(make("div", { class: "tools" }, make("label", {}, "Block ", select), make("label", {}, arrows, " arrows"),
    make("button", { type: "button", onclick: () => zoom(0.5) }, "Zoom in"), make("button", { type: "button", onclick: () => zoom(2) }, "Zoom out"), make("button", { type: "button", onclick: () => setView(0, view.whole) }, "Show all"),
    make("span", { class: "quiet" }, "Drag to pan; shift and wheel, or double click, to zoom; click for details.")), plot.node,
    legend([...line.pipes.map((pipe, k) => [`background:var(--p${k % 8})`, `${pipe.id}: busy ${percent(pipe.busy)}`]), ["border:2px solid var(--critical)", "critical path"], ["border-top:2px solid var(--arrow);height:0", "a flag that held the pipe"], ["border-top:2px dashed var(--arrow);height:0", "a flag that was set before"]]),
    plot.text, kept, list);
}

function legend(entries) {
  return make("ul", { class: "legend" }, ...entries.map(([style, text]) => make("li", {}, make("span", { class: "swatch", style }), text)));
}

function worksTable(line, items) {
  const rows = items.slice(0, 2000).map((item) => [line.pipes[item.pipe].id, format(item.start), format(item.end), item.statement?.text ?? "load_scalar", item.waits.join("; "), placeLink(item.where)]);
  return table(["pipe", "start", "end", "statement", "waited for", "place"], rows, "Work of the block");
}

function paintTimeline(plot, c, line, shown, withArrows) {
  const width = plot.width, top = (pipe) => 6 + pipe * LANE, critical = css("--critical");
  line.pipes.forEach((pipe, k) => {
    c.fillStyle = css("--grid"); c.fillRect(LEFT, top(k) + LANE - 3, width - LEFT - RIGHT, 1);
    c.fillStyle = css("--text"); c.fillText(`${pipe.core} → ${pipe.pipe}`, 6, top(k) + LANE / 2 - 2);
  });
  plot.inside(() => {
    shown.lanes.forEach((lane, pipe) => lane.visible(view.from, view.to, plot.pixel, (item, count) => {
      const y = top(pipe), h = LANE - 6, [x, w] = plot.bar(item, y, h, pipeColour(pipe), statementName(item.statement), count);
      if (item.critical) { c.strokeStyle = critical; c.lineWidth = 2; c.strokeRect(x + 1, y + 1, Math.max(1, w - 2), h - 2); }
    }));
    const [first, last] = shown.arrows.get(view.from, view.to);
    if (withArrows) shown.arrows.visible(view.from, view.to, last - first > MOST_ARROWS ? 4 * plot.pixel : 0, (arrow) => paintArrow(plot, c, arrow, top));
    paintCounter(plot, c, shown.counter, top(line.pipes.length));
  });
  if (shown.counter.items.length) { c.fillStyle = css("--text"); c.textAlign = "left"; c.fillText("bytes moving", 6, top(line.pipes.length) + 12); }
}

function paintArrow(plot, c, arrow, top) {
  if (arrow.kind === "handshake" && !arrow.isHeld && view.to - view.from > view.whole / 2) return;
  const x0 = plot.x(arrow.start), x1 = plot.x(arrow.end), y0 = top(arrow.src) + LANE / 2 - 3, y1 = top(arrow.dst) + LANE / 2 - 3;
  plot.drawn += 1;
  c.strokeStyle = c.fillStyle = css("--arrow"); c.lineWidth = arrow.isHeld ? 1.5 : 0.75; c.setLineDash(arrow.isHeld ? [] : [3, 3]);
  c.beginPath(); c.moveTo(x0, y0); c.lineTo(x1, y1); c.stroke(); c.setLineDash([]);
  const angle = Math.atan2(y1 - y0, x1 - x0);
  c.beginPath(); c.moveTo(x1, y1); c.lineTo(x1 - 6 * Math.cos(angle - 0.4), y1 - 6 * Math.sin(angle - 0.4)); c.lineTo(x1 - 6 * Math.cos(angle + 0.4), y1 - 6 * Math.sin(angle + 0.4)); c.closePath(); c.fill();
  plot.lines.push({ x0, y0, x1, y1, item: arrow });
}

/** Bytes of global memory that the longest block is moving, as items. */
function counterItems(line) {
  return line.in_flight.flatMap(([start, bytes], k) => {
    const end = line.in_flight[k + 1]?.[0] ?? start;
    return bytes ? [{ start, end, bytes, text: () => `${line.in_flight_merged > 1 ? "up to " : ""}${format(bytes)} bytes of global memory are moving\ncycle ${format(start)} to ${format(end)}` }] : [];
  });
}

function paintCounter(plot, c, counter, top) {
  const most = counter.items.reduce((found, item) => Math.max(found, item.bytes), 1);
  c.fillStyle = css("--p4"); c.globalAlpha = 0.35;
  counter.visible(view.from, view.to, plot.pixel, (item) => {
    const x = plot.x(item.start), w = Math.max(1, plot.x(item.end) - x), h = item.bytes / most * 20;
    c.fillRect(x, top + 22 - h, w, h);
    plot.boxes.push({ x, y: top + 22 - h, w, h, item });
  });
  c.globalAlpha = 1;
}

// --- memory maps

function drawMemory(body) {
  const own = now();
  if (!own.memory || !own.memory.length) { body.append(make("p", { class: "quiet" }, "No tile has an address on this target.")); return; }
  if (own.timeline) body.append(make("p", { class: "quiet" }, "Address against time, in the longest block; it zooms with the timeline. A rectangle is a tile from its first write to its last read; what is empty is free."));
  for (const memory of own.memory) {
    const left = memory.size ? memory.size - memory.used : 0;
    body.append(make("h3", {}, `${memory.name}: ${format(memory.used)}${memory.size ? ` of ${format(memory.size)} bytes (${percent(memory.used / memory.size)})` : " bytes"}`));
    if (own.timeline) body.append(...memoryMap(memory, left));
    const rows = memory.tiles.map((tile) => [tile.name, hex(tile.first), hex(tile.end), format(tile.end - tile.first)]);
    body.append(make("details", {}, make("summary", {}, "Addresses"), table(["tile", "first byte", "end", "bytes"], rows, `Tiles in ${memory.name}`)));
  }
}

function memoryMap(memory, left) {
  const statements = now().timeline.statements;
  const items = memory.live.map((each) => ({ name: each.name, low: each.first, high: each.end, start: each.start, end: each.stop, where: statements[each.writes[0] ?? each.reads[0]]?.where, text: () => liveText(each, statements) }));
  const lanes = Object.values(Object.groupBy(items, (item) => `${item.low}/${item.name}`)).map((group) => new Lane(group));
  const whole = make("input", { type: "checkbox", checked: !memory.size || memory.used * 4 > memory.size, onchange: zoomed });
  const top = () => whole.checked ? Math.max(memory.size || 0, memory.used, 1) : Math.max(memory.used, 1);
  const plot = new Plot(`Memory map of ${memory.name}`, 220, (self, c) => paintMemory(self, c, memory, lanes, top()), items.toSorted((a, b) => a.start - b.start));
  plot.empty = (x, y) => freeAt(plot, items, top(), x, y);
  return [make("div", { class: "tools" }, left > 0 ? make("label", {}, whole, " whole memory") : null, left > 0 ? make("span", { class: "quiet" }, `${format(left)} bytes above the tiles are never used.`) : null), plot.node, plot.text];
}

function liveText(each, statements) {
  const listed = (numbers) => [...new Set(numbers.map((number) => `${statementName(statements[number])}${statements[number]?.where ? ` (line ${statements[number].where.line})` : ""}`))].join(", ");
  return [`${each.name}: ${hex(each.first)} to ${hex(each.end)}, ${format(each.end - each.first)} bytes`, `live from ${format(each.start)} to ${format(each.stop)}, ${counted(each.stop - each.start, "cycle")}`,
    each.writes.length ? `written by ${listed(each.writes)}` : "read before anything has written it", each.reads.length ? `read by ${listed(each.reads)}` : "never read"].filter(Boolean).join("\n");
}

/** The free bytes around a point. */
function freeAt(plot, items, top, x, y) {
  if (x < LEFT || y < MAP_TOP || y > plot.height - 22) return null;
  const byte = (plot.height - 22 - y) / (plot.height - 22 - MAP_TOP) * top, time = plot.time(x), live = items.filter((item) => item.start <= time && time <= item.end);
  const low = Math.max(0, ...live.filter((item) => item.high <= byte).map((item) => item.high)), high = Math.min(top, ...live.filter((item) => item.low > byte).map((item) => item.low));
  return { start: time, end: time, text: () => `free at cycle ${format(time)}: ${hex(low)} to ${hex(high)}, ${format(high - low)} bytes` };
}

const MAP_TOP = 12;
function paintMemory(plot, c, memory, lanes, top) {
  const y = (byte) => plot.height - 22 - byte / top * (plot.height - 22 - MAP_TOP), width = plot.width;
  c.fillStyle = css("--card"); c.fillRect(LEFT, y(top), width - LEFT - RIGHT, y(0) - y(top));
  c.fillStyle = css("--quiet"); c.strokeStyle = css("--grid"); c.lineWidth = 1;
  const step = 2 ** Math.max(5, Math.ceil(Math.log2(top / 6)));
  for (let byte = 0; byte <= top; byte += step) { c.fillText(hex(byte), 6, y(byte)); c.beginPath(); c.moveTo(LEFT, y(byte)); c.lineTo(width - RIGHT, y(byte)); c.stroke(); }
  const names = [...new Set(memory.tiles.map((tile) => tile.name))];
  plot.inside(() => { for (const lane of lanes) lane.visible(view.from, view.to, plot.pixel, (item, count) => plot.bar(item, y(item.high), Math.max(2, y(item.low) - y(item.high)), pipeColour(names.indexOf(item.name)), item.name, count)); });
  const free = top - memory.used;
  if (free > 0 && y(memory.used) - y(top) > 16) { c.fillStyle = css("--quiet"); c.textAlign = "center"; c.fillText(`${format(free)} bytes free`, (LEFT + width) / 2, (y(memory.used) + y(top)) / 2); c.textAlign = "left"; }
  if (memory.size && memory.used > memory.size) { c.strokeStyle = css("--error"); c.lineWidth = 2; c.beginPath(); c.moveTo(LEFT, y(memory.size)); c.lineTo(width - RIGHT, y(memory.size)); c.stroke(); c.fillStyle = css("--error"); c.fillText("end of the memory", LEFT + 6, y(memory.size) - 8); }
}

// --- gathers and scatters

const SIDE = 64;
const KINDS = { "in bounds": "--p0", clamped: "--p2", wrapped: "--p3", zeroed: "--error", skipped: "--error", overwritten: "--p5" };

function drawAccess(body) {
  const own = now();
  if (!own.access || !own.access.length) { body.append(make("p", { class: "quiet" }, own.accepted ? "The program has no gather and no scatter." : "Nothing was run.")); return; }
  for (const each of own.access) body.append(...accessMap(each));
}

function accessMap(each) {
  const { unit, cells, lines } = each, outside = each.outside_below + each.outside_above;
  const counts = Object.entries(each.counts).map(([name, count]) => `${format(count)} ${name}`).join(", ");
  const facts = [["lanes", counts], [`${unit}s touched`, `${format(each.distinct)} of ${format(cells)}; ${format(each.repeated)} by more than one lane`],
    lines ? [`lines of ${lines.bytes} bytes touched`, `${format(lines.touched)} of ${format(lines.total)}; ${format(lines.repeated)} by more than one lane`] : null,
    outside ? ["indices outside the table", `${format(outside)}: ${format(each.outside_below)} below 0, ${format(each.outside_above)} from ${format(each.capacity)} on`] : null,
    each.efficiency === null ? null : ["coalescing", `${percent(each.efficiency)} of the bytes moved are used; a lane moves ${format(each.lane_bytes)} bytes`]].filter(Boolean);
  const rows = each.listed.rows, kinds = [...new Set(rows.map((row) => laneKind(each, row)))];
  const lanes = lanePicture(each);
  const byCell = bars(each.by_cell, `Lanes by ${unit} of ${each.table}`, `${unit} of ${each.table}`, cells, unit);
  const byLine = lines ? bars(lines, `Lanes by line of ${each.table}`, `line of ${lines.bytes} bytes of ${each.table}`, lines.total, "line") : null;
  const edges = each.histogram.edges;
  const histogram = bars({ counts: each.histogram.counts, size: edges[1] - edges[0] }, `Histogram of the indices of ${each.table}`, "index value as it was read", edges.at(-1), "index", edges[0]);
  const more = make("details", {}, make("summary", {}, `Lanes${each.repeats.length ? " and repeats" : ""} as tables`));
  more.addEventListener("toggle", () => { if (more.open && more.children.length === 1) more.append(...laneTables(each)); });
  return [make("h3", {}, `${each.instruction} of ${each.table}: ${counted(each.lanes, "lane")} in ${counted(each.executions, "execution")} `, placeLink(each.where)),
    make("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    make("div", { class: "pair" },
      figure(`Which ${unit} each lane accesses${rows.length < each.lanes ? `, for the first ${format(rows.length)} lanes` : ""}`, lanes, legend(kinds.map((kind) => [`background:var(${KINDS[kind]})`, kind]))),
      figure(`How often each ${unit} is accessed`, byCell), byLine ? figure("Which lines of global memory are touched", byLine) : null, figure("Histogram of the indices", histogram)),
    more];
}

const figure = (caption, picture, more = null) => make("figure", {}, make("figcaption", {}, caption), picture.node, more, picture.text);

function laneKind(each, [, , , code, , fate]) {
  const { outcomes, fates } = each.listed;
  return code ? outcomes[code] : fates[fate] === "overwritten" ? "overwritten" : outcomes[0];
}

function laneText(each, [block, lane, index, code, cell, fate, by]) {
  const { outcomes, fates } = each.listed;
  return `block ${block}, lane ${lane}: index ${format(index)} is ${outcomes[code]}\n${cell < 0 ? `no ${each.unit} is accessed` : `${each.unit} ${format(cell)} of ${each.table}`}${fate ? `: ${fates[fate]}${by >= 0 ? ` by lane ${by}` : ""}` : ""}`;
}

/** Lanes from left to right, cells of the table from bottom to top; indices outside are above and below it. */
function lanePicture(each) {
  const rows = each.listed.rows, items = rows.map((row, k) => ({ row, k, kind: laneKind(each, row), text: () => laneText(each, row) })), height = 196;
  return new Picture(`Cells of ${each.table} that lanes access`, height, (self, c, width) => {
    const low = each.outside_below ? height - 58 : height - 40, high = each.outside_above ? 26 : 8;
    const x = (k) => SIDE + (k + 0.5) / rows.length * (width - SIDE - RIGHT), y = (cell) => low - (cell + 0.5) / each.cells * (low - high);
    const size = clamp((width - SIDE - RIGHT) / rows.length - 1, 2, 8), tall = clamp((low - high) / each.cells - 1, 2, 8);
    frame(c, width, low, high, each.cells, each.unit, rows.length, "lane", height);
    c.fillStyle = css("--quiet");
    if (each.outside_above) c.fillText("above", 6, high - 10);
    if (each.outside_below) c.fillText("below", 6, low + 10);
    for (const item of items) {
      const [, , index, , cell] = item.row, isOut = index < 0 || index >= each.capacity, outY = index < 0 ? low + 10 : high - 10, left = x(item.k) - size / 2;
      c.fillStyle = c.strokeStyle = css(KINDS[item.kind]); c.lineWidth = 0.5;
      if (isOut && cell >= 0) { c.beginPath(); c.moveTo(x(item.k), outY); c.lineTo(x(item.k), y(cell)); c.stroke(); }
      if (isOut) { c.fillRect(left, outY - 3, size, 6); self.box(left, outY - 3, size, 6, item); }
      if (cell >= 0) { c.fillRect(left, y(cell) - tall / 2, size, tall); self.box(left, y(cell) - tall / 2, size, tall, item); }
    }
  }, items);
}

/** Axes: cells upwards, lanes to the right. */
function frame(c, width, low, high, cells, unit, count, across, height, least = 0) {
  c.strokeStyle = css("--line"); c.lineWidth = 1; c.strokeRect(SIDE, high, width - SIDE - RIGHT, low - high);
  c.fillStyle = css("--quiet");
  for (const value of ticks(0, cells, 4)) if (value % 1 === 0) { c.textAlign = "right"; c.fillText(format(value), SIDE - 6, clamp(low - value / cells * (low - high), high + 5, low - 4)); }
  c.textAlign = "center";
  const shown = ticks(least, least + count, clamp(Math.floor((width - SIDE) / 80), 2, 6)).filter((value) => value % 1 === 0);
  for (const value of shown) c.fillText(format(value), clamp(SIDE + (value - least) / count * (width - SIDE - RIGHT), SIDE, width - RIGHT - 4 * format(value).length), height - 25);
  c.fillText(across, (SIDE + width - RIGHT) / 2, height - 9);
  c.textAlign = "left"; c.save(); c.translate(9, (low + high) / 2); c.rotate(-Math.PI / 2); c.textAlign = "center"; c.fillText(unit, 0, 0); c.restore();
}

/** Counts of runs of `size` numbers as bars. */
function bars({ counts, size }, label, across, end, unit, least = 0) {
  const height = 166, low = height - 40, high = 8, most = Math.max(...counts, 1), total = counts.length * size;
  const range = (k) => { const first = least + k * size, last = Math.min(first + size, end) - 1; return last > first ? `${unit}s ${format(first)} to ${format(last)}` : `${unit} ${format(first)}`; };
  const items = counts.flatMap((count, k) => count ? [{ k, count, text: () => `${range(k)}: ${size > 1 && unit === "line" ? `accessed ${counted(count, "time")}` : counted(count, "lane")}` }] : []);
  return new Picture(label, height, (self, c, width) => {
    const each = (width - SIDE - RIGHT) / counts.length;
    frame(c, width, low, high, most, size > 1 && unit === "line" ? "accesses" : "lanes", total, across, height, least);
    for (const item of items) {
      const tall = item.count / most * (low - high - 2), left = Math.floor(SIDE + item.k * each), w = Math.max(Math.ceil(SIDE + (item.k + 1) * each) - left - (each > 4 ? 1 : 0), 1);
      c.fillStyle = css("--p0"); c.fillRect(left, low - tall, w, tall);
      self.box(left, low - tall, w, tall, item);
    }
  }, items);
}

function laneTables(each) {
  const { rows, outcomes, fates } = each.listed;
  const lanes = rows.slice(0, 512).map(([block, lane, index, code, cell, fate, by]) => [format(block), format(lane), format(index), outcomes[code], cell < 0 ? "" : format(cell), fate ? fates[fate] + (by >= 0 ? ` by lane ${by}` : "") : ""]);
  const repeats = each.repeats.map(([cell, count]) => [format(cell), format(count)]);
  return [repeats.length ? table([each.unit, "lanes"], repeats, `Cells of ${each.table} touched more than once`) : null,
    table(["block", "lane", "index", "outcome", each.unit, "fate"], lanes, `Outcome of lanes of ${each.table}`), rows.length > 512 ? make("p", { class: "quiet" }, "The first 512 lanes.") : null].filter(Boolean);
}

// --- tiles

const offsetOf = (layout, i, j) => layout.start + part(layout.rows, i) + part(layout.cols, j);
const part = (terms, value) => terms.reduce((sum, [div, mod, stride]) => { const k = Math.floor(value / div); return sum + (mod ? k % mod : k) * stride; }, 0);
const MOST_SHOWN = 32;

const FORM_TEXT = {
  ND: "rows one after the other", DN: "columns one after the other", NZ: "boxes one below the other, then the next column of boxes; in a box, row after row",
  ZN: "boxes side by side, then the next row of boxes; in a box, column after column", ZZ: "boxes side by side, then the next row of boxes; in a box, row after row", NN: "boxes one below the other, then the next column of boxes; in a box, column after column",
};
const LINE_BYTES = 128;

function drawTiles(body) {
  const tiles = now().tiles || [];
  if (!tiles.length) { body.append(make("p", { class: "quiet" }, "No tiles.")); return; }
  const first = Math.max(0, tiles.findIndex((tile) => tile.form !== "ND"));
  const select = make("select", { onchange: () => show(tiles[Number(select.value)]) }, ...tiles.map((tile, k) => make("option", { value: k, selected: k === first }, `${tile.name}: ${tile.text}${tile.text.includes(tile.form.toLowerCase()) ? "" : `, ${tile.form}`}`)));
  const place = make("div", {});
  const show = (tile) => { grids = []; place.replaceChildren(inspector(tile)); };
  body.append(make("div", { class: "tools" }, make("label", {}, "Tile ", select)), place);
  show(tiles[first]);
}

function inspector(tile) {
  const rows = Math.min(tile.rows, MOST_SHOWN), cols = Math.min(tile.cols, MOST_SHOWN), perLine = clamp(Math.floor(LINE_BYTES / tile.bytes), 1, 32);
  const cells = [], valid = tile.valid.map((extent, k) => extent ?? [tile.rows, tile.cols][k]);
  for (let i = 0; i < rows; i++) for (let j = 0; j < cols; j++) cells.push({ i, j, k: cells.length, offset: offsetOf(tile.layout, i, j), isValid: i < valid[0] && j < valid[1] });
  const order = cells.toSorted((a, b) => a.offset - b.offset);
  const lines = [...new Set(order.map((cell) => Math.floor(cell.offset / perLine)))], lineOf = new Map(lines.map((line, k) => [line, k])), placed = new Map();
  order.forEach((cell, k) => { cell.rank = k; cell.at = lineOf.get(Math.floor(cell.offset / perLine)) * perLine + cell.offset % perLine; placed.set(cell.at, cell); });
  const first = tile.addresses.length ? tile.addresses[0] : 0;
  const text = make("output", { "aria-live": "polite" });
  let chosen = cells[0];
  const describe = (cell) => `row ${cell.i}, column ${cell.j} is element ${format(cell.offset)}, byte ${hex(first + cell.offset * tile.bytes)}${tile.addresses.length ? ` of ${tile.memory}` : " of the tile"}${cell.isValid ? "" : ", outside the valid region"}`;
  const logical = grid(`Logical order of ${tile.name}`, rows, cols, (k) => cells[k], order.length, tile.box);
  const physical = grid(`Physical order of ${tile.name}`, lines.length, perLine, (k) => placed.get(k), order.length);
  const choose = (cell, event) => { if (!cell) return; chosen = cell; text.textContent = describe(cell); logical.mark(cell.k); physical.mark(cell.at); showTip(event ? describe(cell) : "", event); };
  const key = (event, moves) => {
    const next = moves[event.key]?.();
    if (event.key in moves) { event.preventDefault(); choose(next); }
  };
  logical.node.addEventListener("keydown", (event) => key(event, { ArrowLeft: () => chosen.j > 0 && cells[chosen.k - 1], ArrowRight: () => chosen.j < cols - 1 && cells[chosen.k + 1], ArrowUp: () => cells[chosen.k - cols], ArrowDown: () => cells[chosen.k + cols] }));
  physical.node.addEventListener("keydown", (event) => key(event, { ArrowLeft: () => order[chosen.rank - 1], ArrowRight: () => order[chosen.rank + 1], ArrowUp: () => placed.get(chosen.at - perLine), ArrowDown: () => placed.get(chosen.at + perLine) }));
  for (const each of [logical, physical]) { each.onhover = choose; each.draw(); }
  const cut = rows < tile.rows || cols < tile.cols ? ` Shown: the first ${rows} rows and ${cols} columns of ${tile.rows} x ${tile.cols}.` : "";
  queueMicrotask(() => choose(chosen));
  return make("div", {}, make("p", {}, make("b", {}, tile.form), `: ${FORM_TEXT[tile.form] || ""}.${tile.box ? ` A box is ${tile.box[0]} x ${tile.box[1]} elements.` : ""} Equal colours are the same element.${cut}`),
    make("div", { class: "pair" }, make("div", {}, make("h3", {}, "Logical: row and column"), logical.node), make("div", {}, make("h3", {}, `Physical: as it lies in memory, ${format(perLine * tile.bytes)} bytes a row`), physical.node)), text);
}

let grids = [];
function grid(label, rows, cols, at, total, box = null) {
  const size = clamp(Math.floor(520 / cols), 5, 26), canvas = make("canvas", { "aria-hidden": "true", class: "fixed" });
  const node = make("div", { class: "scroll plot", tabindex: 0, role: "application", "aria-label": `${label}. Arrow keys choose an element.` }, canvas);
  const x = (k) => k % cols * size, y = (k) => Math.floor(k / cols) * size;
  const self = { node, canvas, size, marked: -1, onhover: () => {},
    mark(k) { self.marked = k; self.draw(); },
    draw() {
      const ratio = devicePixelRatio || 1, c = canvas.getContext("2d");
      canvas.width = cols * size * ratio; canvas.height = rows * size * ratio; canvas.style.width = `${cols * size}px`; canvas.style.height = `${rows * size}px`;
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      c.font = "9px system-ui, sans-serif"; c.textAlign = "center"; c.textBaseline = "middle";
      for (let k = 0; k < rows * cols; k++) {
        const cell = at(k);
        if (!cell) continue;
        c.globalAlpha = cell.isValid ? 1 : 0.3;
        c.fillStyle = `hsl(${250 * (1 - cell.rank / Math.max(1, total - 1))} 60% 70%)`;
        c.fillRect(x(k), y(k), size - 1, size - 1);
        c.globalAlpha = 1;
        if (size >= 15) { c.fillStyle = cell.isValid ? "#000" : css("--quiet"); c.fillText(String(cell.offset), x(k) + size / 2, y(k) + size / 2, size - 2); }
      }
      c.fillStyle = css("--text");
      if (box) for (let i = box[0]; i < rows; i += box[0]) c.fillRect(0, i * size - 1.5, cols * size, 2);
      if (box) for (let j = box[1]; j < cols; j += box[1]) c.fillRect(j * size - 1.5, 0, 2, rows * size);
      if (self.marked >= 0) { c.strokeStyle = css("--text"); c.lineWidth = 3; c.strokeRect(x(self.marked) + 1, y(self.marked) + 1, size - 3, size - 3); }
    } };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect(), j = Math.floor((event.clientX - box.left) / size), i = Math.floor((event.clientY - box.top) / size);
    if (i >= 0 && j >= 0 && i < rows && j < cols) self.onhover(at(i * cols + j), event);
  });
  canvas.addEventListener("pointerleave", () => showTip(""));
  grids.push(self);
  return self;
}

// --- targets

function drawTargets(body) {
  const names = Object.keys(DATA.targets), { values, statements } = DATA.comparison;
  const shown = (value) => value === null || value === undefined ? "–" : typeof value === "number" ? (Math.abs(value) <= 1 && value % 1 ? percent(value) : format(value)) : typeof value === "object" ? Object.entries(value).map(([name, bytes]) => `${name} ${format(bytes)}`).join(", ") || "–" : value;
  body.append(table(["compared", ...names], values.map((each) => [each.what, ...names.map((name) => shown(each.values[name]))]), "Values by target"));
  if (names.length > 1) {
    body.append(make("h3", {}, "Why they differ"), make("dl", { class: "facts" }, ...values.filter((each) => each.why.length).flatMap((each) => [make("dt", {}, each.what), make("dd", {}, make("ul", {}, ...each.why.map((text) => make("li", {}, text))))])));
  }
  if (statements.length && names.length > 1) {
    const timed = names.filter((name) => DATA.targets[name].timeline);
    const rows = statements.map((each) => [each.instruction, placeLink(each.where), ...timed.flatMap((name) => { const own = each.targets[name]; return [own && own.cycles !== null ? format(own.cycles) : "–", own ? own.pipes.map((pipe) => pipe.split(".").at(-1)).join(", ") : "–", own && own.moved !== null ? format(own.moved) : "–"]; })]);
    body.append(make("details", {}, make("summary", {}, "Statements side by side"), table(["instruction", "place", ...timed.flatMap((name) => [`${name}: cycles`, "pipes", "bytes"])], rows, "Statements side by side")));
  }
  for (const name of names) {
    const own = DATA.targets[name];
    if (own.findings.length && name !== target) body.append(make("h3", {}, `Findings of ${name}`), make("ol", { class: "findings" }, ...own.findings.map((finding) => findingItem(finding, null))));
  }
}

// --- all of it

const SECTIONS = { summary: drawSummary, source: drawSource, timeline: drawTimeline, memory: drawMemory, access: drawAccess, tiles: drawTiles, targets: drawTargets };

function draw() {
  pictures = []; grids = [];
  const line = now().timeline;
  view.whole = Math.max(line ? line.longest_cycles : 1, 1e-9); view.from = 0; view.to = view.whole;
  for (const [name, section] of Object.entries(SECTIONS)) {
    const body = $(name).querySelector(".body");
    body.replaceChildren();
    section(body);
  }
  redrawAll();
  for (const code of document.querySelectorAll(".code")) {
    const row = code.querySelector("tr.found") || code.querySelector(".meter")?.closest("tr");
    if (row) code.scrollTop = Math.max(0, row.offsetTop - code.clientHeight / 2);
  }
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").setAttribute("aria-pressed", String(dark));
  colours.clear();
  redrawAll();
  for (const each of grids) each.draw();
}

/** Show a launch: its title, its targets, then all sections. */
function showReport(report) {
  DATA = report; target = report.shown;
  $("title").textContent = report.title;
  $("about").textContent = [report.grid === null ? "" : counted(report.grid, "block"), `ptokit ${ALL.ptokit}`, ALL.command].filter(Boolean).join(" – ");
  $("target").replaceChildren(...Object.keys(report.targets).map((name) => make("option", { value: name, selected: name === target }, name)));
  draw();
}

ALL.reports.forEach((report, k) => $("program").append(make("option", { value: k }, report.title)));
$("programs").hidden = ALL.reports.length < 2;
$("program").addEventListener("change", () => showReport(ALL.reports[Number($("program").value)]));
$("target").addEventListener("change", () => { target = $("target").value; draw(); });
$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
addEventListener("resize", redrawAll);
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
showReport(DATA);
if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
// For tests and for other scripts: the data, and the pictures as they are drawn.
window.ptokitReport = { all: ALL, data: () => DATA, target: () => target, view, setView, zoom, pictures: () => pictures };
})();
