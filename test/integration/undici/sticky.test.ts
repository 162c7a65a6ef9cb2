import { get, type RequestOptions } from 'node:http';
import { cookieKey, hash, headerKey, staticEndpoints } from 'evenkeel';
import * as nodeHttp from 'evenkeel/node-http';
import * as undici from 'evenkeel/undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';

const origin = 'http://carts.shop:8080';
const users = Array.from({ length: 20 }, (_, index) => `user-${index}`);

let pods: Pods;
beforeAll(async () => {
  pods = await Pods.start(3);
});
afterAll(() => pods[Symbol.asyncDispose]());

const kinds = [
  ['a header', headerKey('x-user'), (user: string) => ({ 'X-User': user })],
  ['a cookie', cookieKey('user'), (user: string) => ({ Cookie: `a=b; user=${user}` })],
] as const;

describe.each(kinds)('requests with the same value of %s', (_what, key, headersOf) => {
  it('go to one pod, by fetch, undici.request and node:http alike', async () => {
    const options = { resolver: staticEndpoints(pods.endpoints), picker: hash() };
    await using carts = undici.createFetch(origin, { ...options, key });
    await using agent = nodeHttp.createAgent(origin, { ...options, key });
    await Promise.all([connected(carts.balancer, 3), connected(agent.balancer, 3)]);
    const used = new Set<unknown>();
    for (const user of users) {
      const headers = headersOf(user);
      const fetched = await carts('/', { headers });
      await fetched.text();
      const requested = await carts.dispatcher.request({ path: '/', method: 'GET', headers });
      await requested.body.dump();
      const got = await new Promise((resolve, reject) => {
        const asked = get(`${origin}/`, { agent, headers } as RequestOptions, (response) => {
          response.resume().on('end', () => resolve(response.headers['x-pod']));
        });
        asked.on('error', reject);
      });
      expect([requested.headers['x-pod'], got]).toEqual([fetched.headers.get('x-pod'), fetched.headers.get('x-pod')]);
      used.add(got);
    }
    expect(used.size).toBe(3);
  });
});
