/** Every picker of the library, by the name users call it by: the main entry point exports these, and a recording creates them again by name. */
export { hash } from './hash.js';
export { hotCold } from './hot-cold.js';
export { leastLoaded, neverQueue, shortestExpectedDelay } from './least-loaded.js';
export { p2c } from './p2c.js';
export { preferenceOrder } from './preference-order.js';
export { random } from './random.js';
export { roundRobin } from './round-robin.js';
export { weightedRoundRobin } from './weighted-round-robin.js';
