/**
 * What the engines of client libraries share with everything else in evenkeel, as one file. These engines are CommonJS, so that
 * `register.cjs` can give each the copy of the library that it found; all else of evenkeel is loaded once.
 */
export * from '../adapter/http/answer.js';
export * from '../adapter/http/app-options.js';
export * from '../adapter/http/app-services.js';
export * from '../adapter/http/dial.js';
export * from '../adapter/http/hedging.js';
export { socketsAreMocked } from '../adapter/http/internals.js';
export * from '../adapter/http/mocked-dial.js';
export * from '../adapter/http/origin.js';
export * from '../adapter/http/pending-request.js';
export * from '../adapter/http/pod.js';
export * from '../adapter/http/pod-signals.js';
export * from '../adapter/http/request-deadline.js';
export * from '../adapter/http/request-terms.js';
export * from '../adapter/http/transport-options.js';
export * from '../adapter/http/waiting.js';
export * from '../adapter/kit/index.js';
export * from '../index.js';
export { isInRange, peerRanges } from '../runtime/peer-version.js';
