// @ts-check
/** The page: receives the live data, updates the panels, sends the buttons' actions. */
import { createPanel } from './panel.js';
import { showTabs } from './tabs.js';

/** @typedef {ReturnType<import('../playground.js').Playground['state']> & { log: import('../log.js').LogEntry[] }} PageState */

const KEEP_LOG_LINES = 60;
const NOTICE_MS = 3_500;
// The server sends anew five times a second; dots are spread over that time.
const PUSH_MS = 200;

/** @template {Element} T @param {string} selector @param {new () => T} type @param {ParentNode} [root] @returns {T} */
function get(selector, type, root = document) {
  const found = root.querySelector(selector);
  if (!(found instanceof type)) throw new Error(`the page has no ${selector}`);
  return found;
}

const still = matchMedia('(prefers-reduced-motion: reduce)');
const link = get('#link', HTMLElement);
const summary = get('#summary', HTMLElement);
const busyMachine = get('#busy-machine', HTMLElement);
const target = get('#target', HTMLElement);
const log = get('#log', HTMLOListElement);
const notice = get('#notice', HTMLElement);
const about = get('#about', HTMLDialogElement);

/** The pod chosen by hand. @type {string | undefined} */
let chosen;
/** @type {PageState | undefined} */
let state;
let lastLogId = 0;

/** @param {string} pod */
function choose(pod) {
  chosen = chosen === pod ? undefined : pod;
  render();
}

const stage = get('#panels', HTMLElement);
const tabs = get('#tabs', HTMLElement);
/** The clients that are shown, from left to right. @type {ReturnType<typeof createPanel>[]} */
let panels = [];
let shown = '';

/** Another protocol has other clients. @param {PageState} now */
function keepPanels({ protocol, clients }) {
  const wanted = `${protocol}: ${clients.map(({ name }) => name).join()}`;
  if (wanted === shown) return;
  shown = wanted;
  for (const panel of panels) panel.remove();
  panels = clients.map((client) => createPanel(stage, client, choose));
  stage.dataset.count = String(clients.length);
}

/** The pod the buttons apply to: the chosen one, otherwise the busiest of the ordinary client. @param {PageState} now */
function targetOf({ pods, clients: [ordinary] }) {
  const alive = pods.filter((pod) => pod.state !== 'leaving' && pod.state !== 'dead');
  const found = alive.find((pod) => pod.name === chosen);
  if (found !== undefined) return found;
  chosen = undefined;
  const rates = ordinary?.perSecond ?? {};
  return alive.reduce((best, pod) => ((rates[pod.name] ?? 0) > (rates[best?.name ?? ''] ?? 0) ? pod : best), alive[0]);
}

function render() {
  if (state === undefined) return;
  const pod = targetOf(state);
  const ready = state.pods.filter(({ ready }) => ready).length;
  summary.textContent = `${ready} of ${state.desired} pods ready, ${state.perSecond} ${state.requests}/s from each client${state.engine === undefined ? '' : `, ${state.engine}`}`;
  summary.title = summary.textContent;
  showTabs(tabs, state, (name) => void act(`show-${name}`));
  busyMachine.textContent = state.busyMachine;
  busyMachine.title = state.busyMachine;
  target.replaceChildren(chosen === undefined ? 'Busiest pod' : 'Chosen pod', bold(pod?.shortName ?? '–'));
  // All latencies on one scale, so that they can be compared by eye.
  const highestP99 = Math.max(10, ...state.clients.flatMap(({ p99PerSecond }) => p99PerSecond));
  for (const panel of panels) panel.show(state, { target: pod?.name, chosen, highestP99 });
  renderLog(state.log);
}

/** @param {string} text */
function bold(text) {
  const element = document.createElement('b');
  element.textContent = text;
  return element;
}

/** @param {PageState['log']} entries */
function renderLog(entries) {
  const added = entries.filter(({ id }) => id > lastLogId);
  if (added.length === 0) return;
  for (const { id, at, text } of added) {
    lastLogId = id;
    const line = document.createElement('li');
    const time = document.createElement('time');
    time.textContent = `${at.toFixed(1)} s`;
    line.append(time, text);
    log.append(line);
  }
  while (log.children.length > KEEP_LOG_LINES) log.firstElementChild?.remove();
  log.scrollTop = log.scrollHeight;
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let noticeTimer;
/** @param {string} text */
function say(text) {
  notice.textContent = text;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => {
    notice.textContent = '';
  }, NOTICE_MS);
}

/** @param {string} action */
async function act(action) {
  const body = new URLSearchParams();
  const pod = state && targetOf(state);
  if (pod) body.set('pod', pod.name);
  try {
    const response = await fetch(`/actions/${action}`, { method: 'POST', body });
    if (!response.ok) say(await response.text());
  } catch {
    say('the playground does not answer');
  }
}

/** @type {Map<string, HTMLButtonElement>} */
const byKey = new Map();
for (const button of document.querySelectorAll('button[data-action]')) {
  if (!(button instanceof HTMLButtonElement)) continue;
  button.addEventListener('click', () => void act(button.dataset.action ?? ''));
  byKey.set(button.querySelector('kbd')?.textContent ?? '', button);
}
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || about.open) return;
  const button = byKey.get(event.key) ?? tabs.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (button instanceof HTMLButtonElement) button.click();
});
get('#about-open', HTMLButtonElement).addEventListener('click', () => about.showModal());
get('#about-close', HTMLButtonElement).addEventListener('click', () => about.close());

/** @param {'yes' | 'no' | 'ended'} live @param {string} text */
function showLink(live, text) {
  link.dataset.live = live;
  link.textContent = text;
}

const events = new EventSource('/events');
events.addEventListener('open', () => {
  showLink('yes', 'live');
  // It may be another run, which counts from nothing.
  lastLogId = 0;
  log.replaceChildren();
  for (const panel of panels) panel.forget();
});
events.addEventListener('error', () => showLink('ended', 'the playground has ended; npm start begins a new one'));
events.addEventListener('message', (event) => {
  state = /** @type {PageState} */ (JSON.parse(event.data));
  keepPanels(state);
  for (const panel of panels) panel.fly(state, still.matches ? undefined : PUSH_MS);
  render();
  if (still.matches) for (const panel of panels) panel.draw(performance.now(), 0, true);
});

// If drawing is slow (no graphics card, a busy machine), fewer frames leave the processor to the traffic.
const SLOW_FRAME_MS = 26;
const SPARING_MS = 66;
let lastFrameAt = performance.now();
let frameMs = 16;
let drawnAt = 0;

/** @param {number} now */
function frame(now) {
  requestAnimationFrame(frame);
  frameMs += (Math.min(now - lastFrameAt, 100) - frameMs) * 0.05;
  lastFrameAt = now;
  if (still.matches || (frameMs > SLOW_FRAME_MS && now - drawnAt < SPARING_MS)) return;
  const dtMs = Math.min(now - drawnAt, 200);
  drawnAt = now;
  for (const panel of panels) panel.draw(now, dtMs, false);
}
requestAnimationFrame(frame);

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const panel of panels) panel.recolour();
});
