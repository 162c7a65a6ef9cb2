/** The admin page: one file that loads nothing else. `nonce` allows the page's own style and script, and no others. */
export function pageOf(nonce: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>evenkeel</title>
<style nonce="${nonce}">
:root { color-scheme: light dark; --line: #8884; --dim: #777; --bar: #3b82f6; --bad: #dc2626; --ok: #16a34a; --warn: #d97706; }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 70rem; }
h1 { font-size: 1.2rem; margin: 0 0 .5rem; } h2 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
section { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; margin: 0 0 1rem; }
.facts { display: flex; flex-wrap: wrap; gap: .15rem 1.2rem; color: var(--dim); margin: .3rem 0 .5rem; }
.facts b { color: CanvasText; font-weight: 600; }
.advice { border-left: 3px solid var(--warn); padding-left: .6rem; margin: .4rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.pods { display: grid; gap: .35rem; }
.pod { display: grid; grid-template-columns: minmax(8rem, 2fr) 6.5rem minmax(5rem, 3fr) 5rem; gap: .2rem .8rem; align-items: center; border-top: 1px solid var(--line); padding-top: .35rem; }
.name { overflow-wrap: anywhere; } .name small, .why, .dim { color: var(--dim); }
.why { grid-column: 1 / -1; overflow-wrap: anywhere; font-size: .9em; }
.state::before { content: '●'; margin-right: .3rem; color: var(--dim); }
.state.ready::before { color: var(--ok); } .state.avoided::before, .state.draining::before { color: var(--warn); } .state.ejected::before, .state.backoff::before { color: var(--bad); }
details { margin-top: .35rem; } summary { cursor: pointer; color: var(--dim); border-top: 1px solid var(--line); padding-top: .35rem; }
.bar { height: .7rem; background: var(--line); border-radius: .35rem; overflow: hidden; } .bar i { display: block; height: 100%; background: var(--bar); }
.num { text-align: right; font-variant-numeric: tabular-nums; }
ol { list-style: none; margin: 0; padding: 0; font-size: .9em; } #events { max-height: 24rem; overflow: auto; } li { border-top: 1px solid var(--line); padding: .2rem 0; overflow-wrap: anywhere; }
time { color: var(--dim); font-variant-numeric: tabular-nums; margin-right: .6rem; }
@media (max-width: 40rem) { body { padding: .6rem; } .pod { grid-template-columns: 1fr auto; } .bar { grid-column: 1; } }
</style>
<h1>evenkeel <span class="dim" id="now"></span></h1>
<main id="balancers"></main>
<section id="unbalanced" hidden><h2>Not balanced</h2><ol></ol></section>
<section><h2>Recent events</h2><ol id="events" tabindex="0"></ol></section>
<script nonce="${nonce}">
'use strict';
const make = (tag, className, ...children) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
};
const fact = (label, value) => make('span', '', label + ' ', make('b', '', String(value)));
const seconds = (ms) => ms < 1000 ? Math.round(ms) + ' ms' : (ms / 1000).toFixed(1) + ' s';
const before = new Map();
const opened = new Set();
/** More pods than these are folded away unless something is wrong with them. */
const SHOWN = 12;
function pod({ endpoint, rate }, most) {
  const bar = make('i');
  bar.style.width = (most > 0 ? 100 * rate / most : 0) + '%';
  const addresses = endpoint.address + (endpoint.otherAddress ? ', ' + endpoint.otherAddress : '');
  const label = endpoint.name === undefined ? [addresses] : [endpoint.name + ' ', make('small', '', addresses)];
  const { status, why, relativeCost } = endpoint;
  return make('div', 'pod',
    make('span', 'name', ...label, ...(endpoint.zone ? [make('small', '', ' ' + endpoint.zone)] : [])),
    make('span', 'state ' + status + (why && status === 'ready' ? ' avoided' : ''), status),
    make('span', 'bar', bar),
    make('span', 'num', rate.toFixed(rate < 10 ? 1 : 0) + '/s'),
    make('span', 'why', endpoint.inFlight + ' in flight' + (relativeCost >= 0 ? ', cost ' + relativeCost.toFixed(1) + '×' : '') +
      ', weight ' + endpoint.weight.toFixed(2) + ', ' + endpoint.failed + ' failed' + (why ? ' · ' + why : endpoint.lastError ? ' · last error: ' + endpoint.lastError : '')));
}
function countsByStatus(endpoints) {
  const counts = new Map();
  for (const { status } of endpoints) counts.set(status, (counts.get(status) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([status, count]) => count + ' ' + status).join(', ') || 'no pods';
}
/** Pods that get fewer calls than others and why, then the busiest; the rest of a large Service is folded. */
function pods(balancer, rates) {
  const most = Math.max(...rates, 0);
  const rated = balancer.endpoints.map((endpoint, index) => ({ endpoint, rate: rates[index] }));
  rated.sort((a, b) => (b.endpoint.why ? 1 : 0) - (a.endpoint.why ? 1 : 0) || b.rate - a.rate);
  const troubled = rated.filter(({ endpoint }) => endpoint.why).length;
  const first = Math.max(Math.min(troubled, 4 * SHOWN), SHOWN);
  const parts = [make('div', 'pods', ...rated.slice(0, first).map((one) => pod(one, most)))];
  const rest = rated.slice(first);
  if (rest.length > 0) {
    const open = opened.has(balancer.id);
    const details = make('details', '', make('summary', '', rest.length + ' more: ' + countsByStatus(rest.map(({ endpoint }) => endpoint))));
    // Only while open: thousands of rows that nobody looks at would be drawn anew every second.
    const draw = () => { if (details.children.length === 1) details.append(make('div', 'pods', ...rest.map((one) => pod(one, most)))); };
    if (open) draw();
    details.open = open;
    details.addEventListener('toggle', () => {
      if (!details.open) return opened.delete(balancer.id);
      opened.add(balancer.id);
      draw();
    });
    parts.push(details);
  }
  return parts;
}
function show(balancer, atMs) {
  const last = before.get(balancer.id);
  const rates = balancer.endpoints.map(({ key, started }) => {
    const then = last && last.started.get(key);
    return then === undefined || atMs <= last.atMs ? 0 : Math.max(0, (started - then) * 1000 / (atMs - last.atMs));
  });
  before.set(balancer.id, { atMs, started: new Map(balancer.endpoints.map(({ key, started }) => [key, started])) });
  const { counts } = balancer;
  const retries = Object.values(counts.retries).reduce((sum, count) => sum + count, 0);
  const ejections = Object.values(counts.ejections).reduce((sum, count) => sum + count, 0);
  const section = make('section', '', make('h2', '', balancer.resolver),
    make('div', 'facts', fact('state', balancer.panicking ? 'panic: all are used' : balancer.state), fact('pods', countsByStatus(balancer.endpoints)),
      ...(balancer.discovery ? [fact('found by', balancer.discovery.mode)] : []),
      ...(balancer.staleForMs > 0 ? [fact('unconfirmed for', seconds(balancer.staleForMs))] : []),
      ...(balancer.limit ? [fact('limit', balancer.limit.running + ' of ' + balancer.limit.max)] : []),
      fact('waiting', balancer.waiting), fact('picks', counts.picks), fact('retries', retries), fact('budget', balancer.retryBudget),
      fact('refused', counts.refused), fact('ejections', ejections)));
  if (balancer.discovery && balancer.discovery.advice) section.append(make('div', 'advice', balancer.discovery.advice));
  if (balancer.resolveError) section.append(make('div', 'advice', balancer.resolveError));
  section.append(...pods(balancer, rates));
  return section;
}
async function look() {
  try {
    const response = await fetch('balancers', { cache: 'no-store' });
    const { balancers, unbalanced = [] } = await response.json();
    const atMs = performance.now();
    const main = document.getElementById('balancers');
    main.replaceChildren(...balancers.map((balancer) => show(balancer, atMs)));
    const notBalanced = document.getElementById('unbalanced');
    notBalanced.hidden = unbalanced.length === 0;
    notBalanced.querySelector('ol').replaceChildren(...unbalanced.map(({ what, count, remedy }) => make('li', '', what + ', ' + count + ' times: ' + remedy)));
    if (balancers.length === 0) main.append(make('p', 'dim', 'There is no balancer in this process yet.'));
    document.getElementById('now').textContent = new Date().toLocaleTimeString();
  } catch {
    document.getElementById('now').textContent = 'not reachable';
  }
  setTimeout(look, 1000);
}
look();
const events = document.getElementById('events');
const seen = new Set();
new EventSource('events').onmessage = ({ data }) => {
  const event = JSON.parse(data);
  if (seen.has(event.id)) return;
  seen.add(event.id);
  events.prepend(make('li', '', make('time', '', new Date(event.at).toLocaleTimeString()), event.target + ': ' + event.text));
  while (events.children.length > 200) events.lastChild.remove();
};
</script>
`;
}
