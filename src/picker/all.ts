/** Every picker of the library, by the name that users call it by. */
export { hash } from './hash.js';
export { leastLoaded, neverQueue, shortestExpectedDelay } from './least-loaded.js';
export { p2c } from './p2c.js';
export { random } from './random.js';
export { rotatingAperture } from './rotating-aperture.js';
export { roundRobin } from './round-robin.js';
export { weightedRoundRobin } from './weighted-round-robin.js';
