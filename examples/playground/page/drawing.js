// @ts-check
/** The strokes and fills of a scene. Everything between `translate` and `restore` is drawn on the upright ship. */
import { onScreen } from './layout.js';
import { FLIGHT_MS, LOST_MS, levelOf } from './look.js';

/** @typedef {import('./scene.js').Drawn} Drawn */
/** @typedef {{ x: number, y: number }} Point */
/**
 * @typedef {object} View
 * @property {CanvasRenderingContext2D} paint
 * @property {import('./layout.js').Layout} layout
 * @property {ReturnType<typeof readColours>} colours
 * @property {number} now
 * @property {number} heel
 * @property {number} unrest 0 to 1
 */

/** The page's colours, as the scheme has them now. */
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    glass: colour('glass'),
    muted: colour('muted'),
    ink: colour('ink'),
    card: colour('card'),
    hull: colour('hull'),
    trim: colour('hull-trim'),
    onHull: colour('on-hull'),
    sea: colour('sea'),
    seaDeep: colour('sea-deep'),
    even: colour('even'),
    high: colour('high'),
    over: colour('over'),
    dot: colour('dot'),
  };
}

/** @param {View} view @param {'behind' | 'before'} place */
export function drawSea({ paint, layout, colours, now, unrest }, place) {
  const behind = place === 'behind';
  const { width, height, seaY } = layout;
  const amplitude = 1.6 + unrest * 5;
  const length = behind ? 150 : 110;
  const drift = (now / (behind ? 2_600 : 1_700)) * (behind ? -1 : 1);
  const level = seaY + (behind ? -5 : 3);
  paint.beginPath();
  paint.moveTo(0, height);
  for (let x = 0; x <= width + 8; x += 8) {
    paint.lineTo(x, level + Math.sin((x / length) * Math.PI * 2 + drift * 2) * amplitude);
  }
  paint.lineTo(width, height);
  paint.closePath();
  paint.globalAlpha = behind ? 0.55 : 0.82;
  paint.fillStyle = behind ? colours.sea : colours.seaDeep;
  paint.fill();
  paint.globalAlpha = 1;
}

/** @param {View} view */
export function drawHull({ paint, layout, colours }) {
  const { half, hullHeight: h, deckY, seaY } = layout;
  const deck = deckY - seaY;
  const stern = -half;
  const bow = half;
  const hull = new Path2D();
  hull.moveTo(stern, deck - h * 0.04);
  hull.lineTo(half * 0.8, deck);
  hull.quadraticCurveTo(half * 0.93, deck, bow + h * 0.12, deck - h * 0.3);
  hull.quadraticCurveTo(bow - h * 0.25, deck + h * 0.75, bow - h * 0.95, deck + h);
  hull.lineTo(stern + h * 0.5, deck + h);
  hull.quadraticCurveTo(stern + h * 0.05, deck + h * 0.8, stern, deck - h * 0.04);
  // Bridge and funnel at the stern.
  const bridge = half * 0.16;
  paint.fillStyle = colours.hull;
  paint.globalAlpha = 0.9;
  paint.fillRect(stern + h * 0.28, deck - h * 0.95, bridge * 0.62, h * 0.95);
  paint.fillRect(stern + h * 0.14, deck - h * 0.5, bridge, h * 0.5);
  paint.globalAlpha = 1;
  paint.fillStyle = colours.trim;
  paint.fillRect(stern + h * 0.28 + bridge * 0.12, deck - h * 1.32, bridge * 0.26, h * 0.37);
  paint.fillStyle = colours.card;
  for (let index = 0; index < 3; index++) {
    paint.fillRect(stern + h * 0.28 + bridge * (0.08 + index * 0.18), deck - h * 0.82, bridge * 0.11, h * 0.16);
  }
  paint.fillStyle = colours.hull;
  paint.fill(hull);
  paint.save();
  paint.clip(hull);
  // The painted waterline: level with the sea when the ship is.
  paint.fillStyle = colours.trim;
  paint.fillRect(-half * 1.2, deck + h * 0.62, half * 2.4, h * 0.5);
  paint.fillStyle = colours.onHull;
  paint.globalAlpha = 0.8;
  paint.fillRect(-half * 1.2, deck + h * 0.56, half * 2.4, 2);
  paint.restore();
}

/** @param {View} view @param {Drawn} drawn */
export function drawTank({ paint, layout, colours, now, heel }, { tank, x, width, fill, ratio, stir }) {
  const { deckY, seaY, tankHeight } = layout;
  const bottom = deckY - seaY;
  const top = bottom - tankHeight;
  const left = x - width / 2;
  const out = tank.state !== 'ready' && tank.state !== 'slow' && tank.state !== 'failing';
  const shape = new Path2D();
  shape.roundRect(left, top, width, tankHeight, [4, 4, 7, 7]);
  paint.save();
  paint.clip(shape);
  paint.fillStyle = colours.glass;
  paint.globalAlpha = 0.1;
  paint.fill(shape);
  if (fill > 0.004) {
    // Water stays level while the ship heels.
    const slope = -Math.tan(heel);
    const surface = bottom - fill * tankHeight;
    const wave = (1.2 + stir * 2.2) * Math.min(1, fill * 12);
    paint.beginPath();
    paint.moveTo(left, bottom);
    for (let step = 0; step <= 8; step++) {
      const dx = (step / 8 - 0.5) * width;
      paint.lineTo(x + dx, surface + dx * slope + Math.sin(now / 260 + x + step * 1.1) * wave);
    }
    paint.lineTo(left + width, bottom);
    paint.closePath();
    const level = levelOf(ratio);
    paint.fillStyle = level === 'low' ? colours.even : colours[level];
    paint.globalAlpha = out ? 0.55 : 0.92;
    paint.fill();
  }
  paint.restore();
  paint.strokeStyle = tank.state === 'dead' || tank.state === 'failing' ? colours.over : colours.glass;
  paint.lineWidth = 1.6;
  paint.setLineDash(out ? [5, 5] : []);
  paint.stroke(shape);
  paint.setLineDash([]);
}

/** The line the water should stand at. @param {View} view @param {number} share */
export function drawEvenLine({ paint, layout, colours }, share) {
  const { deckY, seaY, tankHeight, deckFrom, deckTo, small } = layout;
  const y = deckY - seaY - tankHeight * share;
  paint.strokeStyle = colours.ink;
  paint.globalAlpha = 0.75;
  paint.lineWidth = 1.5;
  paint.setLineDash([2, 5]);
  paint.beginPath();
  paint.moveTo(deckFrom, y);
  paint.lineTo(deckTo + 10, y);
  paint.stroke();
  paint.setLineDash([]);
  if (!small) {
    paint.font = '11px system-ui, sans-serif';
    paint.fillStyle = colours.muted;
    paint.globalAlpha = 1;
    paint.textAlign = 'left';
    paint.fillText('even', deckTo + 13, y - 1);
    paint.fillText('share', deckTo + 13, y + 11);
  }
  paint.globalAlpha = 1;
}

/** Where requests start from, and where those of the ordinary client fork. @param {View['layout']} layout @param {boolean} throughService */
function senders({ width, clientY, serviceY }, throughService) {
  const client = { x: width / 2, y: clientY };
  return { client, fork: throughService ? { x: width / 2, y: serviceY } : client };
}

/** The bend of the way from the fork to a tank's mouth. @param {Point} fork @param {Point} mouth @param {number} bend */
const bendOf = (fork, mouth, bend) => ({ x: mouth.x + bend * 26, y: fork.y + (mouth.y - fork.y) * 0.25 });

/** @param {View} view @param {readonly Drawn[]} tanks @param {boolean} throughService */
export function drawConnections({ paint, layout, colours, heel }, tanks, throughService) {
  const { client, fork } = senders(layout, throughService);
  paint.strokeStyle = colours.glass;
  paint.lineCap = 'round';
  paint.globalAlpha = 0.7;
  if (throughService) {
    paint.lineWidth = 3;
    line(paint, client, fork);
  }
  for (const { tank, x } of tanks) {
    if (tank.connections === 0) continue;
    const mouth = onScreen(layout, heel, x, layout.deckY - layout.tankHeight - 4);
    const bend = bendOf(fork, mouth, 0);
    paint.lineWidth = 0.8 + Math.min(tank.connections, 5) * 0.7;
    paint.beginPath();
    paint.moveTo(fork.x, fork.y);
    paint.quadraticCurveTo(bend.x, bend.y, mouth.x, mouth.y);
    paint.stroke();
  }
  paint.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} paint @param {Point} from @param {Point} to */
function line(paint, from, to) {
  paint.beginPath();
  paint.moveTo(from.x, from.y);
  paint.lineTo(to.x, to.y);
  paint.stroke();
}

/** @param {View} view @param {boolean} throughService */
export function drawSenders({ paint, layout, colours }, throughService) {
  const { client, fork } = senders(layout, throughService);
  pill(paint, client, 'client', colours.ink, colours.card, layout.small);
  if (throughService) pill(paint, fork, 'Service', colours.muted, colours.card, layout.small);
}

/** @param {CanvasRenderingContext2D} paint @param {Point} at @param {string} text @param {string} fill @param {string} ink @param {boolean} small */
function pill(paint, at, text, fill, ink, small) {
  const height = small ? 17 : 22;
  paint.font = `600 ${small ? 10.5 : 12}px system-ui, sans-serif`;
  const width = paint.measureText(text).width + height;
  paint.fillStyle = fill;
  paint.beginPath();
  paint.roundRect(at.x - width / 2, at.y - height / 2, width, height, height / 2);
  paint.fill();
  paint.fillStyle = ink;
  paint.textAlign = 'center';
  paint.textBaseline = 'middle';
  paint.fillText(text, at.x, at.y + 0.5);
  paint.textBaseline = 'alphabetic';
}

/**
 * @param {View} view
 * @param {readonly import('./scene.js').Dot[]} dots
 * @param {readonly import('./scene.js').Lost[]} lost
 * @param {(pod: string) => { mouth: Point, water: Point } | undefined} goalOf
 * @param {boolean} throughService
 */
export function drawDots({ paint, layout, colours, now }, dots, lost, goalOf, throughService) {
  const { client, fork } = senders(layout, throughService);
  // All dots in one fill: hundreds of them cost no more than a few.
  const radius = layout.small ? 1.9 : 2.7;
  paint.beginPath();
  for (const { pod, bornAt, bend } of dots) {
    const age = (now - bornAt) / FLIGHT_MS;
    const goal = age < 0 ? undefined : goalOf(pod);
    if (goal === undefined) continue;
    const { x, y } = flight(age, client, fork, goal, bend);
    paint.moveTo(x + radius, y);
    paint.arc(x, y, radius, 0, Math.PI * 2);
  }
  paint.fillStyle = colours.dot;
  paint.fill();
  paint.fillStyle = colours.over;
  for (const { bornAt, side, reach } of lost) {
    const age = (now - bornAt) / LOST_MS;
    if (age < 0) continue;
    const x = fork.x + side * age * layout.width * 0.5 * reach;
    const y = fork.y - 26 * Math.sin(Math.min(age * 2, 1) * Math.PI) * 0.6 + (layout.seaY - fork.y) * age * age;
    paint.beginPath();
    paint.arc(x, y, layout.small ? 4 : 5.5, 0, Math.PI * 2);
    paint.fill();
  }
}

/** Where a request is: to the fork, over to the mouth, down to the water. @param {number} age 0 to 1 @param {Point} client @param {Point} fork @param {{ mouth: Point, water: Point }} goal @param {number} bend @returns {Point} */
function flight(age, client, fork, { mouth, water }, bend) {
  const toFork = client === fork ? 0 : 0.14;
  if (age < toFork) return between(client, fork, age / toFork);
  if (age > 0.72) {
    const fallen = between(mouth, water, Math.min(1, (age - 0.72) / 0.28) ** 1.4);
    return { x: fallen.x + bend * 10, y: fallen.y };
  }
  const t = (age - toFork) / (0.72 - toFork);
  const via = bendOf(fork, mouth, bend);
  const end = { x: mouth.x + bend * 10, y: mouth.y };
  return between(between(fork, via, t), between(via, end, t), t);
}

/** @param {Point} a @param {Point} b @param {number} t @returns {Point} */
const between = (a, b, t) => ({ x: a.x + (b.x - a.x) * t, y: a.y + (b.y - a.y) * t });
