import { describe } from 'vitest';
import { type Mock, mocksHttp, tooOld } from './support/suite.js';

const reason = tooOld('22.12');

async function load(): Promise<Mock> {
  const [{ HttpResponse, http }, { setupServer }] = await Promise.all([import('msw'), import('msw/node')]);
  const server = setupServer();
  let listens = false;
  return {
    start: () => {
      server.listen({ onUnhandledFrame: 'bypass' });
      listens = true;
    },
    answer: (method, url) => {
      const answer = method === 'GET' ? http.get : http.post;
      server.use(answer(url, () => new HttpResponse('mocked', { status: 202 })));
    },
    stop: () => {
      server.resetHandlers();
      if (listens) server.close();
      listens = false;
    },
  };
}

describe.skipIf(reason !== undefined)(`behind msw 3${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  // `setupServer` sees the global fetch and http.request.
  mocksHttp(load, { blindTo: ['undici.request'], atSockets: true });
});
