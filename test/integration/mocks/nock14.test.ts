import nock from 'nock';
import { describe } from 'vitest';
import { mocksHttp } from './support/suite.js';

// It intercepts as soon as it is imported.
nock.restore();

describe('behind nock 14', () => {
  // It sees the global fetch and http.request.
  mocksHttp(
    async () => ({
      start: () => nock.activate(),
      answer: (method, url) => {
        const { origin, pathname } = new URL(url);
        const scope = nock(origin, { allowUnmocked: true }).persist();
        (method === 'GET' ? scope.get(pathname) : scope.post(pathname)).reply(202, 'mocked');
      },
      stop: () => {
        nock.cleanAll();
        nock.restore();
      },
    }),
    { blindTo: ['undici.request'] },
  );
});
