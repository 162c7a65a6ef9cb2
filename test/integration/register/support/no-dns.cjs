// The machine of a test may take seconds to find that a name does not exist.
const dns = require('node:dns');
const { isIP } = require('node:net');

const { lookup } = dns;
dns.lookup = (host, ...more) => {
  if (isIP(host) !== 0) return lookup(host, ...more);
  const error = Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), {
    code: 'ENOTFOUND',
    syscall: 'getaddrinfo',
  });
  return process.nextTick(more.at(-1), error);
};
