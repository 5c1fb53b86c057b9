"use strict";
/* Sorts and filters the report's tables and drives its sample browser. What a model wrote reaches the page as text nodes
   alone, never as markup. The browser's filters live in the address: report.html#show=wrong&text=eggs */

const PER_PAGE = 10; // problems
const SHOWN = 4000; // characters of a long completion before "show all"
const OPEN = 3; // matching samples of a problem that are unfolded at once
const MARKS = 100; // highlighted places in one text

/* An element with attributes and children; a string child becomes a text node. */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const count = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;

/* ---- Tables ---- */

function enhanceTable(table) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  if (rows.length < 2) return;
  for (const head of table.tHead.rows[0].cells) {
    const button = make("button", { type: "button", class: "sort" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sortBy(table, rows, head));
  }
  if (rows.length >= 10) addRowFilter(table, rows);
}

/* Up, down, and the order it came in, in turn. */
function sortBy(table, rows, head) {
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  const direction = next[head.getAttribute("aria-sort") ?? "none"];
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  if (direction !== "none") head.setAttribute("aria-sort", direction);
  const sign = direction === "descending" ? -1 : 1;
  const sorted = direction === "none" ? rows : [...rows].sort((a, b) => sign * compareCells(a, b, head.cellIndex));
  table.tBodies[0].append(...sorted);
}

function compareCells(a, b, column) {
  const [one, other] = [a, b].map((row) => row.cells[column].textContent.trim());
  const [x, y] = [one, other].map((text) => parseFloat(text.replaceAll(",", "")));
  if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  return Number.isNaN(x) - Number.isNaN(y) || one.localeCompare(other);
}

function addRowFilter(table, rows) {
  const field = make("input", { type: "search" });
  const said = make("span", { "aria-live": "polite" });
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    said.textContent = wanted ? count(rows.filter((row) => !row.hidden).length, "row") : "";
  });
  const box = make("p", { class: "rowfilter" }, make("label", {}, "Rows with ", field), " ", said);
  table.parentNode.before(box);
}

/* Ids such as test-0003/0 lead to their sample in the browser. */
function linkIds(cell) {
  const parts = cell.textContent.split(/([\w-]+\/\d+)/);
  if (parts.length < 3) return;
  const link = (id) => make("a", { href: `#text=${encodeURIComponent(id)}` }, id);
  cell.replaceChildren(...parts.map((part, place) => (place % 2 ? link(part) : part)));
}

/* ---- The sample browser ---- */

function startBrowser(section) {
  const data = JSON.parse(document.getElementById("samples-data").textContent);
  const form = section.querySelector("form");
  const view = { data, section, form, list: section.querySelector(".list"), page: 1, found: [] };
  fillChoices(view);
  let waiting;
  form.addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => changed(view), event.target.type === "search" ? 120 : 0);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => changed(view), 0));
  for (const button of section.querySelectorAll("[data-turn]"))
    button.addEventListener("click", () => turn(view, Number(button.dataset.turn)));
  window.addEventListener("hashchange", () => readAddress(view) && section.scrollIntoView());
  section.querySelector(".live").hidden = false;
  if (readAddress(view)) section.scrollIntoView();
  else update(view);
  section.dataset.readyMs = performance.now().toFixed(0);
  prepare(data.problems);
}

/* Make the lower-case texts that a search needs while nobody waits, a few problems at a time. */
function prepare(problems, from = 0) {
  for (const problem of problems.slice(from, from + 50))
    for (const sample of problem.samples) lowered(problem, sample);
  if (from + 50 < problems.length) setTimeout(() => prepare(problems, from + 50), 0);
}

function fillChoices({ data, form }) {
  const option = (value) => make("option", { value }, String(value));
  form.rule.append(...data.rules.map(option));
  form.rule.value = data.headline;
  [...form.rule.options].find((one) => one.value === data.headline).defaultSelected = true;
  form.against.append(...data.rules.map(option));
  const steps = new Set(data.problems.map((problem) => problem.steps.length));
  form.steps.append(...[...steps].sort((a, b) => a - b).map(option));
}

/* What the form asks for, as it stands in the address. */
function readForm({ data, form }) {
  const flags = ["truncated", "unread"].filter((name) => form[name].checked);
  const state = { show: [form.verdict.value, ...flags].filter(Boolean).join(","), rule: form.rule.value };
  if (state.rule === data.headline) state.rule = "";
  return { ...state, against: form.against.value, steps: form.steps.value, text: form.text.value };
}

/* Set the form from an address that holds filters; false where it holds none (a link to a heading, or nothing). */
function readAddress(view) {
  const { form, data } = view;
  const given = location.hash.includes("=") ? new URLSearchParams(location.hash.slice(1)) : null;
  if (!given) return false;
  const show = (given.get("show") ?? "").split(",");
  form.verdict.value = ["right", "wrong", "failed"].find((name) => show.includes(name)) ?? "";
  for (const name of ["truncated", "unread"]) form[name].checked = show.includes(name);
  form.rule.value = data.rules.includes(given.get("rule")) ? given.get("rule") : data.headline;
  const against = given.get("against") ?? (show.includes("disagree") ? "any" : "");
  form.against.value = against === "any" || data.rules.includes(against) ? against : "";
  form.steps.value = given.get("steps") ?? "";
  if (form.steps.selectedIndex < 0) form.steps.value = "";
  form.text.value = given.get("text") ?? "";
  update(view, Number(given.get("page")) || 1);
  return true;
}

function changed(view) {
  writeAddress(view, 1);
  update(view);
}

function writeAddress(view, page) {
  const given = new URLSearchParams(Object.entries(readForm(view)).filter(([, value]) => value));
  if (page > 1) given.set("page", page);
  history.replaceState(null, "", `#${given}` === "#" ? "#samples" : `#${given}`);
}

function update(view, page = 1) {
  const start = performance.now();
  view.query = view.form.text.value.trim().toLowerCase();
  view.found = search(view);
  showPage(view, page);
  view.section.offsetHeight; // lay out, so that the time below is what a reader waits
  view.section.dataset.filterMs = (performance.now() - start).toFixed(1);
}

/* The problems with their matching samples, in order. */
function search(view) {
  const { data, form, query } = view;
  const rule = data.rules.indexOf(form.rule.value);
  const against = form.against.value === "any" ? "any" : data.rules.indexOf(form.against.value);
  const wanted = { right: "1", wrong: "0", failed: "-" }[form.verdict.value];
  const steps = Number(form.steps.value);
  const matches = (problem, sample) =>
    (!wanted || sample.right[rule] === wanted) &&
    (!form.truncated.checked || sample.finish === "length") &&
    (!form.unread.checked || (sample.read[rule] === null && sample.right[rule] !== "-")) &&
    (against === -1 || parted(sample.right, rule, against)) &&
    (!query || holds(problem, sample, query));
  return data.problems
    .filter((problem) => !steps || problem.steps.length === steps)
    .map((problem) => ({ problem, hits: problem.samples.filter((sample) => matches(problem, sample)) }))
    .filter(({ hits }) => hits.length);
}

function parted(right, rule, against) {
  return against === "any" ? /01|10/.test(right.replaceAll("-", "")) : right[rule] !== right[against];
}

function holds(problem, sample, query) {
  const lower = lowered(problem, sample);
  return problem.lower.includes(query) || lower.includes(query);
}

function lowered(problem, sample) {
  problem.lower ??= [problem.id, problem.question, ...problem.steps].join("\n").toLowerCase();
  return (sample.lower ??= `${problem.id}/${sample.i}\n${sample.text}\n${sample.error ?? ""}`.toLowerCase());
}

function showPage(view, page) {
  const pages = Math.max(1, Math.ceil(view.found.length / PER_PAGE));
  view.page = Math.min(Math.max(1, page), pages);
  const samples = view.found.reduce((sum, { hits }) => sum + hits.length, 0);
  const text = `${count(samples, "sample")} of ${count(view.found.length, "problem")}`;
  view.section.querySelector(".count").textContent = text;
  for (const place of view.section.querySelectorAll(".place")) place.textContent = `Page ${view.page} of ${pages}`;
  for (const button of view.section.querySelectorAll("[data-turn]"))
    button.disabled = button.dataset.turn < 0 ? view.page === 1 : view.page === pages;
  const shown = view.found.slice((view.page - 1) * PER_PAGE, view.page * PER_PAGE);
  view.list.replaceChildren(...shown.map((one) => card(view, one)));
}

function turn(view, step) {
  showPage(view, view.page + step);
  writeAddress(view, view.page);
  view.section.querySelector(".count").scrollIntoView();
}

function card(view, { problem, hits }) {
  const rule = view.data.rules.indexOf(view.form.rule.value);
  const right = problem.samples.filter((sample) => sample.right[rule] === "1").length;
  const about = `gold ${problem.gold}, ${count(problem.steps.length, "step")}, ${right} of ${problem.samples.length} right`;
  const link = make("a", { href: `#text=${encodeURIComponent(problem.id)}` }, problem.id);
  const steps = problem.steps.map((step) => make("li", {}, ...marked(step, view.query)));
  const node = make("article", {}, make("h3", {}, link, " ", make("small", {}, about)));
  node.append(make("p", { class: "question" }, ...marked(problem.question, view.query)));
  node.append(make("ol", { "aria-label": "gold solution", class: "gold" }, ...steps));
  node.append(...hits.map((sample, place) => block(view, sample, rule, place < OPEN)));
  const others = problem.samples.filter((sample) => !hits.includes(sample));
  if (others.length) {
    const summary = make("summary", {}, `${count(others.length, "other sample")} of this problem`);
    node.append(folded(make("details", { class: "others" }, summary), () => others.map((one) => block(view, one, rule))));
  }
  return node;
}

/* A details element whose content is made when it is first opened. */
function folded(details, content, open = false) {
  const fill = () => details.childElementCount === 1 && details.append(...content());
  if (open) fill();
  details.open = open;
  details.addEventListener("toggle", () => details.open && fill());
  return details;
}

const VERDICTS = { 1: ["right", "✓ right"], 0: ["wrong", "✗ wrong"], "-": ["failed", "– failed"] };

function block(view, sample, rule, open = false) {
  const [name, verdict] = VERDICTS[sample.right[rule]];
  const read = sample.right[rule] === "-" ? "no completion" : `read ${sample.read[rule] ?? "no number"}`;
  const facts = [`sample ${sample.i}`, read];
  if (sample.finish === "length") facts.push("cut by the token limit");
  else if (sample.finish && sample.finish !== "stop") facts.push(`finish: ${sample.finish}`);
  if (sample.tokens !== undefined) facts.push(count(sample.tokens, "token"));
  const summary = make("summary", {}, make("b", { class: name }, verdict), ` ${facts.join(", ")}`);
  const content = () => [...texts(sample, view.query), readings(view.data.rules, sample)];
  return folded(make("details", { class: `sample ${name}` }, summary), content, open);
}

/* The completion: whole, or where it is long its beginning and end with a button between that shows the rest. */
function texts(sample, query) {
  if (sample.error) return [make("p", {}, `The request failed: ${sample.error}`)];
  if (!sample.text) return [make("p", {}, "The completion is empty.")];
  const pre = (text) => make("pre", {}, ...marked(text, query));
  if (sample.text.length <= SHOWN + 1000) return [pre(sample.text)];
  const [head, tail] = [pre(sample.text.slice(0, SHOWN - 1000)), pre(sample.text.slice(-1000))];
  const button = make("button", { type: "button", class: "all" }, `Show all ${count(sample.text.length, "character")}`);
  button.addEventListener("click", () => {
    const whole = pre(sample.text);
    whole.tabIndex = -1;
    head.replaceWith(whole);
    tail.remove();
    button.remove();
    whole.focus({ preventScroll: true });
  });
  return [head, button, tail];
}

/* Text nodes, the places of the query in mark elements. */
function marked(text, query) {
  const lower = query ? text.toLowerCase() : "";
  if (!query || lower.length !== text.length) return [text];
  const nodes = [];
  let end = 0;
  for (let at = lower.indexOf(query); at >= 0 && nodes.length < 2 * MARKS; at = lower.indexOf(query, end)) {
    nodes.push(text.slice(end, at), make("mark", {}, text.slice(at, at + query.length)));
    end = at + query.length;
  }
  return [...nodes, text.slice(end)];
}

/* What the rules read from a sample, rules that agree in one line. */
function readings(rules, sample) {
  const groups = new Map();
  rules.forEach((rule, place) => {
    const key = JSON.stringify([sample.read[place], sample.right[place]]);
    groups.set(key, [...(groups.get(key) ?? []), rule]);
  });
  const lines = [...groups].map(([key, names]) => {
    const [read, right] = JSON.parse(key);
    const [name, verdict] = VERDICTS[right];
    return make("li", {}, make("b", { class: name }, verdict), ` ${read ?? "no number"}: `, names.join(", "));
  });
  return make("ul", { class: "readings", "aria-label": "read by each rule" }, ...lines);
}

document.querySelectorAll("table.dataframe").forEach(enhanceTable);
document.querySelectorAll(".with-ids td").forEach(linkIds);
startBrowser(document.getElementById("browser"));
