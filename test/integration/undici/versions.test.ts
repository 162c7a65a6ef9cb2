import { staticEndpoints } from 'evenkeel';
import { createAppAgent, createDispatcher, undiciTransport } from 'evenkeel/undici';
import type * as undici from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { carriesHttp2, version } from './support/version.js';

const origin = 'https://orders.shop:8443';
const resolver = staticEndpoints([{ address: '127.0.0.1', port: 1 }]);
let opened: undici.Dispatcher | undefined;
afterEach(async () => {
  await opened?.destroy();
});

const ways = {
  createDispatcher: () => {
    opened = createDispatcher(origin, { resolver, allowH2: true });
  },
  createAppAgent: () => {
    opened = createAppAgent({ options: { allowH2: true } });
  },
  undiciTransport: () => void undiciTransport({ origin, allowH2: true }),
};

describe.each(Object.entries(ways))(`HTTP/2 by %s with undici ${version}`, (_name, make) => {
  it('is refused where a GOAWAY loses requests or repeats them endlessly, and accepted elsewhere', () => {
    if (!carriesHttp2) {
      expect(make).toThrow(
        expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining('it needs 8.10') }),
      );
    } else make();
  });
});
