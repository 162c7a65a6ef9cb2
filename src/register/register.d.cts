/**
 * `node --require evenkeel/register app.js` balances what an app sends to Kubernetes Services through `fetch`, undici, `http`, `https` and
 * `@grpc/grpc-js`, without a change to the app. Settings: `EVENKEEL_SERVICES`, `EVENKEEL_EXCLUDE`, `EVENKEEL_DISABLED`, `EVENKEEL_CONFIG`,
 * `EVENKEEL_ADMIN`, `EVENKEEL_METRICS`; see docs/guide/whole-app.md.
 */
export {};
