export { checkAskedTls, checkTls, type TlsOption } from './dial.js';
