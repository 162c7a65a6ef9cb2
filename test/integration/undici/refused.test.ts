import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDispatcher, type ServiceDispatcher } from '../../../src/adapter/undici/index.js';
import { staticEndpoints } from '../../../src/resolver/static.js';
import { connected } from '../../support/connected.js';
import { Pods } from '../../support/pods.js';

const origin = 'http://orders.shop:8080';

let pods: Pods;
let dispatcher: ServiceDispatcher;

beforeEach(async () => {
  pods = await Pods.start(1);
  dispatcher = createDispatcher(origin, { resolver: staticEndpoints(pods.endpoints), stages: [], connections: 2 });
  await connected(dispatcher.balancer, 1);
});
afterEach(async () => {
  await dispatcher.destroy();
  await pods[Symbol.asyncDispose]();
});

describe('requests undici refuses before it sends them', () => {
  it.each([
    ['a header with a line break', { path: '/', headers: { 'x-user': 'a\r\nb' } }],
    ['a header undici does not send', { path: '/', headers: { 'transfer-encoding': 'chunked' } }],
    ['a path with a space', { path: '/a b' }],
    ['no path', { path: '*' }],
  ])('%s takes no connection away from those that follow', async (_what, refused) => {
    for (let count = 0; count < 5; count++) {
      await expect(dispatcher.request({ method: 'GET', ...refused })).rejects.toMatchObject({
        code: 'UND_ERR_INVALID_ARG',
      });
    }
    const answers = await Promise.all(
      ['/', '/', '/', '/'].map(async (path) => {
        const { statusCode, body } = await dispatcher.request({ path, method: 'GET' });
        await body.dump();
        return statusCode;
      }),
    );
    expect(answers).toEqual([200, 200, 200, 200]);
    expect(dispatcher.balancer.snapshot().endpoints[0]?.inFlight).toBe(0);
  });

  it.each(['http://other:99999/x', 'http://[other/x', 'HTTPS://other:port/'])(
    'an absolute URL nobody can read, %s, reaches no pod',
    async (path) => {
      await expect(dispatcher.request({ origin, path, method: 'GET' })).rejects.toMatchObject({
        code: 'UND_ERR_INVALID_ARG',
      });
      expect(dispatcher.balancer.snapshot().endpoints[0]?.started).toBe(0);
    },
  );
});
