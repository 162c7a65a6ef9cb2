export { asPodLeftError, dialLeftError, isPodLeftError, podLeftMessage } from './dial.js';
