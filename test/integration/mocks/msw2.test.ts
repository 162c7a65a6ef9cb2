import { HttpResponse, http } from 'msw2';
import { setupServer } from 'msw2/node';
import { describe } from 'vitest';
import { mocksHttp } from './support/suite.js';

const server = setupServer();

describe('behind msw 2', () => {
  // It sees the global fetch and http.request.
  mocksHttp(
    async () => ({
      start: () => server.listen({ onUnhandledRequest: 'bypass' }),
      answer: (method, url) => {
        const answer = method === 'GET' ? http.get : http.post;
        server.use(answer(url, () => new HttpResponse('mocked', { status: 202 })));
      },
      stop: () => {
        server.resetHandlers();
        server.close();
      },
    }),
    { blindTo: ['undici.request'] },
  );
});
