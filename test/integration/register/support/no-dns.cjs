// The machine of a test may take seconds to find that a name does not exist.
require('node:dns').lookup = (host, _options, done) => {
  const error = Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), {
    code: 'ENOTFOUND',
    syscall: 'getaddrinfo',
  });
  process.nextTick(done, error);
};
