// @ts-check
/**
 * One ship: its pods are tanks on deck, the water in a tank is the pod's requests per second, or its connections where those
 * live for hours; every dot is a request that was answered. The ship heels to where its load is. Knows nothing of where the
 * data come from.
 */
import {
  drawConnections,
  drawDots,
  drawEvenLine,
  drawHull,
  drawSea,
  drawSenders,
  drawTank,
  readColours,
} from './drawing.js';
import { berthOf, layoutOf, onScreen } from './layout.js';
import { EVEN_FILL, FLIGHT_MS, LOST_MS } from './look.js';

/**
 * @typedef {object} Tank
 * @property {string} name
 * @property {string} state
 * @property {number} load
 * @property {number} connections
 */

/**
 * @typedef {object} Drawn a tank on its way to where it should be
 * @property {Tank} tank
 * @property {number} x centre, from the ship's middle
 * @property {number} width
 * @property {number} ratio its load against the even share
 * @property {number} fill share of its height, 0 to 1
 * @property {number} stir how much its surface moves, 0 to 1
 */

/** @typedef {{ pod: string, bornAt: number, bend: number }} Dot */
/** @typedef {{ bornAt: number, side: number, reach: number }} Lost a request that failed: it goes overboard */

const MAX_DOTS = 500;
const MAX_LOST = 60;
const MAX_HEEL = (8 * Math.PI) / 180;
const HEEL_PER_MOMENT = (24 * Math.PI) / 180;
const CALM_ROCKING = 0.003;
const ROUGH_ROCKING = 0.04;

/** Moves a value towards a goal, alike at any frame rate. @param {number} value @param {number} goal @param {number} dtMs @param {number} tauMs */
const approach = (value, goal, dtMs, tauMs) => goal + (value - goal) * Math.exp(-dtMs / tauMs);

export class Scene {
  #canvas;
  #paint;
  #throughService;
  #colours = readColours();
  /** @type {Map<string, Drawn>} */
  #tanks = new Map();
  /** @type {readonly Tank[]} */
  #order = [];
  /** @type {Dot[]} */
  #dots = [];
  /** @type {Lost[]} */
  #lost = [];
  #heelGoal = 0;
  #list = 0;
  #unrest = 0;
  #unrestGoal = 0;
  #ready = 0;

  layout = layoutOf(600, 400);
  /** The present heel in radians, clockwise. */
  heel = 0;

  /** @param {HTMLCanvasElement} canvas @param {boolean} throughService whether requests pass a Service's address */
  constructor(canvas, throughService) {
    this.#canvas = canvas;
    this.#paint = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    this.#throughService = throughService;
  }

  /** Reads size and colours anew. */
  resize() {
    const { clientWidth, clientHeight } = this.#canvas;
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.#canvas.width = Math.round(clientWidth * scale);
    this.#canvas.height = Math.round(clientHeight * scale);
    this.#paint.setTransform(scale, 0, 0, scale, 0, 0);
    this.#colours = readColours();
    this.layout = layoutOf(clientWidth, clientHeight);
  }

  /** The tanks as they are drawn now. */
  get tanks() {
    return this.#tanks.values();
  }

  /** @param {readonly Tank[]} tanks in their order on deck @param {number} ready how many pods the load should be spread over */
  update(tanks, ready) {
    this.#order = tanks;
    this.#ready = ready;
    const total = tanks.reduce((sum, { load }) => sum + load, 0);
    const even = ready > 0 ? total / ready : 0;
    const names = new Set(tanks.map(({ name }) => name));
    for (const name of this.#tanks.keys()) if (!names.has(name)) this.#tanks.delete(name);
    const { deckFrom, deckTo, half } = this.layout;
    const middle = (deckFrom + deckTo) / 2;
    let moment = 0;
    let busiest = 0;
    tanks.forEach((tank, index) => {
      const berth = berthOf(this.layout, tanks.length, index);
      const ratio = even > 0 ? tank.load / even : 0;
      const known = this.#tanks.get(tank.name);
      this.#tanks.set(tank.name, { x: berth.x, width: berth.width, fill: 0, stir: 0, ...known, tank, ratio });
      if (total > 0) moment += (tank.load / total) * ((berth.x - middle) / half);
      busiest = Math.max(busiest, ratio);
    });
    this.#heelGoal = Math.max(-MAX_HEEL, Math.min(MAX_HEEL, moment * HEEL_PER_MOMENT));
    this.#unrestGoal = Math.min(1, Math.max(0, (busiest - 1.2) / 1.5));
  }

  /** Requests that were answered, by pod, and that failed, within the coming `spreadMs`. @param {Record<string, number>} answers @param {number} failed @param {number} now @param {number} spreadMs */
  send(answers, failed, now, spreadMs) {
    for (const [pod, count] of Object.entries(answers)) {
      for (let index = 0; index < count && this.#dots.length < MAX_DOTS; index++) {
        this.#dots.push({ pod, bornAt: now + Math.random() * spreadMs, bend: Math.random() - 0.5 });
      }
    }
    for (let index = 0; index < failed && this.#lost.length < MAX_LOST; index++) {
      const side = Math.random() < 0.5 ? -1 : 1;
      this.#lost.push({ bornAt: now + Math.random() * spreadMs, side, reach: 0.3 + Math.random() * 0.7 });
    }
  }

  /** Moves everything on. `still` goes to where it should be at once. @param {number} now @param {number} dtMs @param {boolean} still */
  step(now, dtMs, still) {
    const dt = still ? 1e9 : dtMs;
    this.#order.forEach((tank, index) => {
      const drawn = this.#tanks.get(tank.name);
      if (drawn === undefined) return;
      const berth = berthOf(this.layout, this.#order.length, index);
      drawn.x = approach(drawn.x, berth.x, dt, 180);
      drawn.width = approach(drawn.width, berth.width, dt, 180);
      drawn.fill = approach(drawn.fill, Math.min(drawn.ratio * EVEN_FILL, 1), dt, 320);
      drawn.stir = approach(drawn.stir, 0, dt, 400);
    });
    this.#unrest = approach(this.#unrest, this.#unrestGoal, dt, 900);
    this.#list = approach(this.#list, this.#heelGoal, dt, 700);
    const rocking = CALM_ROCKING + this.#unrest * ROUGH_ROCKING;
    this.heel = this.#list + (still ? 0 : Math.sin(now / 900) * rocking);
    for (const dot of this.#dots) {
      if (now - dot.bornAt < FLIGHT_MS) continue;
      const drawn = this.#tanks.get(dot.pod);
      if (drawn) drawn.stir = Math.min(1, drawn.stir + 0.12);
    }
    this.#dots = still ? [] : this.#dots.filter(({ bornAt }) => now - bornAt < FLIGHT_MS);
    this.#lost = still ? [] : this.#lost.filter(({ bornAt }) => now - bornAt < LOST_MS);
  }

  /** @param {number} now */
  draw(now) {
    const paint = this.#paint;
    const { width, height, seaY } = this.layout;
    const view = { paint, layout: this.layout, colours: this.#colours, now, heel: this.heel, unrest: this.#unrest };
    const tanks = [...this.#tanks.values()];
    paint.clearRect(0, 0, width, height);
    drawSea(view, 'behind');
    drawConnections(view, tanks, this.#throughService);
    paint.save();
    paint.translate(width / 2, seaY);
    paint.rotate(this.heel);
    drawHull(view);
    for (const tank of tanks) drawTank(view, tank);
    if (this.#ready > 0) drawEvenLine(view, EVEN_FILL);
    paint.restore();
    drawSea(view, 'before');
    drawDots(view, this.#dots, this.#lost, (name) => this.#mouthOf(name), this.#throughService);
    drawSenders(view, this.#throughService);
  }

  /** Where a request enters a tank and where it meets the water. @param {string} name */
  #mouthOf(name) {
    const drawn = this.#tanks.get(name);
    if (drawn === undefined) return undefined;
    const { deckY, tankHeight } = this.layout;
    return {
      mouth: onScreen(this.layout, this.heel, drawn.x, deckY - tankHeight - 4),
      water: onScreen(this.layout, this.heel, drawn.x, deckY - tankHeight * Math.max(drawn.fill, 0.03)),
    };
  }
}
