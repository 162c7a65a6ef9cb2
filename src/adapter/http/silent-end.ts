export { explainSilentEnd } from './answer.js';
