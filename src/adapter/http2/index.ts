export { createHttp2Client, type ServiceHttp2Client } from './client.js';
export type { GrowingSessions, Http2Options, Http2RequestOptions, SessionSettings } from './options.js';
export { createSessionManager, type ServiceSessionManager } from './session-manager.js';
