export { DISCARDED_BYTES, DISCARDED_MS } from './answer.js';
