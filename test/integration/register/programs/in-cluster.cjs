// The cluster's DNS as a process sees it: names of Services lead to the stand-in for kube-proxy.
const dns = require('node:dns');

const address = '127.0.0.1';
const { lookup } = dns;
const { lookup: lookupAsync } = dns.promises;
const isService = (host) => /\.shop(\.svc(\.cluster\.local)?)?\.?$/.test(host);

dns.lookup = function lookupInCluster(host, ...more) {
  if (!isService(host)) return lookup.call(this, host, ...more);
  const found = typeof more[0] === 'object' && more[0].all ? [{ address, family: 4 }] : address;
  return process.nextTick(more.at(-1), null, found, 4);
};

dns.promises.lookup = async function lookupInCluster(host, options) {
  if (!isService(host)) return lookupAsync.call(this, host, options);
  const found = { address, family: 4 };
  return options?.all ? [found] : found;
};
