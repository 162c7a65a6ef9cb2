import { describe } from 'vitest';
import { type Mock, mocksHttp, tooOld } from './support/suite.js';

const reason = tooOld('22.20');

describe.skipIf(reason !== undefined)(`behind nock 15${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  mocksHttp(
    async (): Promise<Mock> => {
      const { default: nock } = await import('nock15');
      // It intercepts as soon as it is imported.
      nock.restore();
      return {
        start: () => {
          if (!nock.isActive()) nock.activate();
        },
        answer: (method, url) => {
          const { origin, pathname } = new URL(url);
          const scope = nock(origin, { allowUnmocked: true }).persist();
          if (method === 'GET') scope.get(pathname).reply(202, 'mocked');
          else scope.post(pathname).reply(202, 'mocked');
        },
        stop: () => {
          nock.cleanAll();
          nock.restore();
        },
      };
    },
    { atSockets: true },
  );
});
