// @ts-check
/** One client's half of the page: its figures, its ship, and a button for each pod. */
import { HIGH_RATIO, levelOf } from './look.js';
import { Scene } from './scene.js';

/** @typedef {import('./app.js').PageState} PageState */

// Below this a tank's badge is written upright.
const NARROW_PX = 66;
// Below this there is no room for its name.
const TINY_PX = 25;

/** @param {number | undefined} ms */
function formatTime(ms) {
  if (ms === undefined) return '–';
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

/** @param {number} count */
const formatCount = (count) => (count < 10_000 ? String(count) : `${Math.floor(count / 1_000)}k`);

/** @param {ParentNode} root @param {string} selector @returns {HTMLElement} */
const get = (root, selector) => /** @type {HTMLElement} */ (root.querySelector(selector));

/**
 * @param {HTMLElement} stage where it is put
 * @param {PageState['clients'][number]} client
 * @param {(pod: string) => void} choose called when a pod is clicked
 */
export function createPanel(stage, { name: clientName, title, connections: kind, how, throughService }, choose) {
  const template = /** @type {HTMLTemplateElement} */ (document.querySelector('#panel'));
  const body = /** @type {DocumentFragment} */ (template.content.cloneNode(true));
  const root = get(body, '.panel');
  root.id = clientName;
  root.setAttribute('aria-label', title);
  setText(get(root, 'h2'), title);
  setText(get(root, '.how'), how);
  stage.append(root);

  const holds = get(root, '.holds');
  const canvas = /** @type {HTMLCanvasElement} */ (root.querySelector('canvas'));
  const scene = new Scene(canvas, throughService);
  const resized = new ResizeObserver(() => scene.resize());
  resized.observe(canvas);
  const spread = get(root, '.spread');
  const errors = get(root, '.errors');
  const cuts = get(root, '.cuts');
  /** @type {Map<string, HTMLLIElement>} */
  const pods = new Map();
  /** Answers by pod, and what failed, as of the last message. @type {{ answers: Record<string, number>, failed: number } | undefined} */
  let seen;

  /** @param {string} name */
  function podElement(name) {
    const known = pods.get(name);
    if (known !== undefined) return known;
    const item = document.createElement('li');
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'pod';
    button.dataset.pod = name;
    for (const part of ['pick', 'badge', 'load', 'name']) {
      const span = document.createElement('span');
      span.className = part;
      button.append(span);
    }
    button.addEventListener('click', () => choose(name));
    item.append(button);
    pods.set(name, item);
    return item;
  }

  /** @param {PageState} state */
  const ownOf = (state) => state.clients.find(({ name }) => name === clientName);

  /** @param {PageState} state @param {{ target: string | undefined, chosen: string | undefined }} aim */
  function showPods(state, { target, chosen }) {
    const own = ownOf(state);
    if (own === undefined) return;
    const ready = state.pods.filter((pod) => pod.ready).length;
    const even = Object.values(own.load).reduce((sum, load) => sum + load, 0) / Math.max(ready, 1);
    const items = state.pods.map((pod) => {
      const load = own.load[pod.name] ?? 0;
      const item = podElement(pod.name);
      const button = get(item, '.pod');
      const aside = own.setAside.includes(pod.name) && pod.state !== 'dead';
      const badge = pod.state === 'ready' ? (aside ? 'set aside' : '') : aside ? `${pod.state}, set aside` : pod.state;
      button.dataset.state = pod.state;
      button.dataset.aside = aside ? 'yes' : 'no';
      button.dataset.level = levelOf(even > 0 ? load / even : 0);
      button.dataset.load = load.toFixed(1);
      button.dataset.target = pod.name === target ? 'yes' : 'no';
      button.setAttribute('aria-pressed', String(pod.name === chosen));
      button.setAttribute(
        'aria-label',
        `pod ${pod.shortName}, ${badge || 'ready'}, ${Math.round(load)} ${state.longLived ? 'connections' : `${state.requests} per second`}`,
      );
      setText(get(item, '.load'), String(Math.round(load)));
      setText(get(item, '.name'), pod.shortName);
      setText(get(item, '.badge'), badge);
      return item;
    });
    const gone = [...pods.keys()].filter((name) => !state.pods.some((pod) => pod.name === name));
    for (const name of gone) {
      pods.get(name)?.remove();
      pods.delete(name);
    }
    items.forEach((item, index) => {
      if (holds.children[index] !== item) holds.insertBefore(item, holds.children[index] ?? null);
    });
    scene.update(
      state.pods.map((pod) => ({
        name: pod.name,
        state: pod.state,
        load: own.load[pod.name] ?? 0,
        connections: own.openConnections[pod.name] ?? 0,
      })),
      ready,
    );
  }

  /** @param {PageState} state @param {number} highest the top of the scale, in ms */
  function showFigures(state, highest) {
    const own = ownOf(state);
    if (own === undefined) return;
    const connections = Object.values(own.openConnections).reduce((sum, count) => sum + count, 0);
    setText(get(root, '.connections'), String(connections));
    setText(get(root, '.kind'), connections === 1 ? kind.replace(/s(?=,?$)/, '') : kind);
    const ratio = own.maxOverMean;
    spread.dataset.level = ratio === undefined ? 'none' : levelOf(ratio);
    setText(get(spread, '.which'), state.longLived ? 'fullest pod' : 'busiest pod');
    setText(get(spread, '.value'), ratio === undefined ? '–' : `${ratio.toFixed(ratio < HIGH_RATIO ? 2 : 1)}×`);
    setText(get(root, '.p99'), formatTime(own.p99Ms));
    setText(get(root, '.p50'), formatTime(own.p50Ms));
    showTrouble(
      errors,
      own.errors,
      Object.entries(own.errorKinds).map(([kind, count]) => `${count} × ${kind}`),
    );
    cuts.hidden = !state.longLived;
    showTrouble(
      cuts,
      own.cut,
      Object.entries(own.closes).map(([code, count]) => `${count} × closed with ${code}`),
    );
    const { p99PerSecond } = own;
    // A minute when there is one; the first seconds are not squeezed into a corner.
    const step = 120 / (Math.max(p99PerSecond.length, 15) - 1);
    const points = p99PerSecond.map((ms, index) => {
      const x = 120 - (p99PerSecond.length - 1 - index) * step;
      return `${x.toFixed(1)} ${(32 - 30 * Math.sqrt(Math.min(ms / highest, 1))).toFixed(1)}`;
    });
    const first = points[0];
    if (first === undefined) return;
    get(root, '.sparkline .line').setAttribute('d', `M${points.join('L')}`);
    get(root, '.sparkline .area').setAttribute('d', `M${points.join('L')}L120 34L${first.split(' ')[0]} 34Z`);
  }

  /** @param {HTMLElement} figure @param {number} count @param {readonly string[]} details */
  function showTrouble(figure, count, details) {
    figure.dataset.any = count > 0 ? 'yes' : 'no';
    figure.title = details.join('\n');
    setText(get(figure, '.value'), formatCount(count));
  }

  /** Lays the pods' buttons over their tanks. */
  function placePods() {
    const { width, seaY, deckY, tankHeight, hullHeight } = scene.layout;
    holds.style.transformOrigin = `${width / 2}px ${seaY}px`;
    holds.style.transform = `rotate(${scene.heel.toFixed(4)}rad)`;
    const hullRoom = hullHeight * 0.55;
    for (const { tank, x, width: tankWidth } of scene.tanks) {
      const item = pods.get(tank.name);
      if (item === undefined) continue;
      item.style.transform = `translate(${(width / 2 + x - tankWidth / 2).toFixed(1)}px, ${(deckY - tankHeight).toFixed(1)}px)`;
      item.style.width = `${tankWidth.toFixed(1)}px`;
      item.style.height = `${(tankHeight + hullRoom).toFixed(1)}px`;
      const button = get(item, '.pod');
      button.dataset.narrow = tankWidth < NARROW_PX ? 'yes' : 'no';
      button.dataset.tiny = tankWidth < TINY_PX ? 'yes' : 'no';
      item.style.setProperty('--tank', `${tankWidth.toFixed(0)}px`);
      item.style.setProperty('--hull-room', `${hullRoom.toFixed(0)}px`);
    }
  }

  return {
    /** @param {PageState} state @param {{ target: string | undefined, chosen: string | undefined, highestP99: number }} aim */
    show(state, aim) {
      showPods(state, aim);
      showFigures(state, aim.highestP99);
    },
    /** A dot for each request that ended since the last message; none without `spreadMs`. @param {PageState} state @param {number | undefined} spreadMs */
    fly(state, spreadMs) {
      const own = ownOf(state);
      if (own === undefined) return;
      const failed = own.errors + own.cut;
      if (seen !== undefined && spreadMs !== undefined && !document.hidden) {
        const { answers } = seen;
        const news = Object.entries(own.answers).map(([pod, count]) => [pod, Math.max(0, count - (answers[pod] ?? 0))]);
        scene.send(Object.fromEntries(news), Math.max(0, failed - seen.failed), performance.now(), spreadMs);
      }
      seen = { answers: own.answers, failed };
    },
    /** What was seen belongs to another run. */
    forget() {
      seen = undefined;
    },
    remove() {
      resized.disconnect();
      root.remove();
    },
    recolour: () => scene.resize(),
    /** @param {number} now @param {number} dtMs @param {boolean} still */
    draw(now, dtMs, still) {
      scene.step(now, dtMs, still);
      scene.draw(now);
      placePods();
    },
  };
}

/** Leaves alone what is the same, so that assistive technology is not told again. @param {Element} element @param {string} text */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
