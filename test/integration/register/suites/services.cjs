// EVENKEEL_CONFIG of a suite whose hosts are Services: each port of this machine is a Service of one pod, which is there.
const { staticEndpoints } = require('evenkeel');

const own = ({ port }) => ({ resolver: staticEndpoints([{ address: '127.0.0.1', port: Number(port) || 80 }]) });

module.exports = { http: own, fetch: own, grpc: own };
