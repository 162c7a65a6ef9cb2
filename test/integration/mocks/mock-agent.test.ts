import { staticEndpoints } from 'evenkeel';
import { createAppAgent, createDispatcher } from 'evenkeel/undici';
import { type Dispatcher, MockAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Pod } from '../../support/pods/pods.js';

const origin = 'http://orders.shop:8080';

let mocks: MockAgent;

beforeEach(() => {
  mocks = new MockAgent();
  mocks.disableNetConnect();
});
afterEach(() => mocks.close());

describe("undici's MockAgent", () => {
  /** The code of an app, which is given what it sends by. */
  const order = async (dispatcher: Dispatcher): Promise<string> => {
    const { body } = await request(`${origin}/v1/orders/42`, { dispatcher });
    return body.text();
  };

  it('takes the place of a dispatcher of evenkeel', async () => {
    mocks.get(origin).intercept({ path: '/v1/orders/42' }).reply(200, 'mocked');
    expect(await order(mocks)).toBe('mocked');
    const pod = await Pod.start();
    await using orders = createDispatcher(origin, { resolver: staticEndpoints([pod.endpoint]) });
    expect(JSON.parse(await order(orders))).toMatchObject({ pod: 'pod' });
    await orders.close();
    await pod[Symbol.asyncDispose]();
  });

  it('answers for the hosts of `fallbackDispatcher` only', async () => {
    const pod = await Pod.start();
    mocks.get('https://example.com').intercept({ path: '/' }).reply(200, 'mocked');
    const agent = createAppAgent({
      services: ['orders.shop'],
      options: () => ({ resolver: staticEndpoints([pod.endpoint]) }),
      fallbackDispatcher: mocks,
    });
    const { body } = await request('https://example.com/', { dispatcher: agent });
    expect(await body.text()).toBe('mocked');
    expect(JSON.parse(await order(agent))).toMatchObject({ pod: 'pod' });
    await agent.close();
    await pod[Symbol.asyncDispose]();
  });
});
