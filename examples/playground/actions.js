// @ts-check
/** What can be done, by name; the buttons of the page and the keys of the terminal are these. */
import { protocols } from './protocols.js';

/** @typedef {(playground: import('./playground.js').Playground, pod: string | undefined) => void | Promise<void>} Run */
/** @typedef {{ key: string, label: string, needsPod: boolean, run: Run }} Action */

/** To the cluster that is shown. @type {Readonly<Record<string, Action>>} */
const deeds = {
  'scale-up': {
    key: '+',
    label: 'scale up',
    needsPod: false,
    run: (playground) => playground.cluster().scale(playground.cluster().desired() + 1),
  },
  'scale-down': {
    key: '-',
    label: 'scale down',
    needsPod: false,
    run: (playground) => playground.cluster().scale(playground.cluster().desired() - 1),
  },
  roll: { key: 'r', label: 'roll all', needsPod: false, run: (playground) => playground.cluster().roll() },
  kill: { key: 'k', label: 'kill -9', needsPod: true, run: (playground, pod) => playground.cluster().kill(pod) },
  slow: { key: 's', label: 'slow', needsPod: true, run: (playground, pod) => playground.cluster().slow(pod) },
  fail: { key: 'f', label: 'fail fast', needsPod: true, run: (playground, pod) => playground.cluster().fail(pod) },
  unready: { key: 'u', label: 'unready', needsPod: true, run: (playground, pod) => playground.cluster().unready(pod) },
  heal: { key: 'h', label: 'heal', needsPod: false, run: (playground) => playground.heal() },
};

/** To what is shown. */
const shows = protocols.map(({ name, title, key }) => [
  `show-${name}`,
  {
    key,
    label: title,
    needsPod: false,
    run: (/** @type {import('./playground.js').Playground} */ playground) => playground.show(name),
  },
]);

/** @type {Readonly<Record<string, Action>>} */
export const actions = { ...deeds, ...Object.fromEntries(shows) };
