import { errors, interceptors } from 'undici';
import { describe, expect, it } from 'vitest';
import { createAppAgent, createDispatcher } from '../../../../src/adapter/undici/index.js';
import { staticEndpoints } from '../../../../src/resolver/static.js';

const origin = 'http://orders.shop:8080';
const resolver = staticEndpoints([{ address: '127.0.0.1', port: 1 }]);

const subjects = {
  createDispatcher: () => createDispatcher(origin, { resolver }),
  createAppAgent: () => createAppAgent({ services: ['orders.shop'], options: () => ({ resolver }) }),
};

// undici's `compose` returns a Proxy, which calls methods with itself as `this`.
describe.each(Object.entries(subjects))('the composed dispatcher of %s', (_name, make) => {
  const refusedAfterwards = (dispatcher: ReturnType<typeof make>) =>
    expect(dispatcher.request({ origin, path: '/', method: 'GET' })).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });

  it('can be closed, also with a callback', async () => {
    const dispatcher = make();
    const composed = dispatcher.compose(interceptors.dump()).compose(interceptors.retry());
    await composed.close();
    await new Promise<void>((resolve) => composed.close(resolve));
    await refusedAfterwards(dispatcher);
  });

  it('can be destroyed, also with an error and a callback', async () => {
    const dispatcher = make();
    const composed = dispatcher.compose(interceptors.dump());
    await composed.destroy();
    await new Promise<void>((resolve) => composed.destroy(new Error('enough'), resolve));
    await refusedAfterwards(dispatcher);
  });

  it('is not closed or destroyed with an invalid callback, and reports it as undici does', async () => {
    const dispatcher = make();
    expect(() => dispatcher.close({ deadline: 5 } as never)).toThrow(errors.InvalidArgumentError);
    expect(() => dispatcher.destroy(null, 'done' as never)).toThrow(errors.InvalidArgumentError);
    expect([dispatcher.closed, dispatcher.destroyed]).toEqual([false, false]);
    await dispatcher.close();
  });

  it('can be disposed of', async () => {
    const dispatcher = make();
    const composed = dispatcher.compose(interceptors.dump()) as typeof dispatcher;
    await composed[Symbol.asyncDispose]();
    await refusedAfterwards(dispatcher);
  });
});

describe('the composed dispatcher of an agent', () => {
  it('shows what the agent shows', async () => {
    const agent = subjects.createAppAgent();
    const composed = agent.compose(interceptors.dump()) as typeof agent;
    expect(composed.snapshot()).toEqual(agent.snapshot());
    expect(composed.balancers.size).toBe(0);
    await agent.close();
  });
});
