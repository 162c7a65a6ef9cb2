// The cluster's DNS: the Service has its name, and behind it the address where its stand-in listens.
const dns = require('node:dns');

const clusterIp = '127.0.0.1';
const lookup = /** @type {any} */ (dns.lookup);

/** @param {string} host @param {any[]} more options, if any, and the callback */
function lookupInCluster(host, ...more) {
  if (!host.endsWith('.shop')) return lookup(host, ...more);
  const answer = more.at(-1);
  process.nextTick(answer, null, more[0].all ? [{ address: clusterIp, family: 4 }] : clusterIp, 4);
}

dns.lookup = /** @type {any} */ (lookupInCluster);
