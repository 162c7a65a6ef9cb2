import { expect, it } from 'vitest';
import { type Caller, HedgeFixture } from '../../../support/fixtures/fake-pod-pool.js';

const asks: [string, (of: HedgeFixture) => Caller][] = [
  ['a request', (of) => of.askPlainly()],
  ['a request that may have several answers', (of) => of.ask()],
];

/** A request whose socket is being opened when its caller gives up. undici drops it when the socket is open. */
async function givenUp(ask: (of: HedgeFixture) => Caller): Promise<HedgeFixture> {
  const service = await new HedgeFixture(1, { stalledAfterMs: 1_000 }).ready();
  service.beginsAtOnce = false;
  const caller = ask(service);
  await service.clock.advanceAsync(500);
  caller.controller?.abort(new Error('enough'));
  expect(caller.error?.message).toBe('enough');
  await service.clock.advanceAsync(5_000);
  expect(service.inFlight).toBe(1);
  return service;
}

const failed = ({ balancer }: HedgeFixture): number | undefined => balancer.snapshot().endpoints[0]?.failed;

it.each(asks)(
  '%s that was aborted before it was sent is not a timeout of the pod, however late undici drops it',
  async (_what, ask) => {
    const service = await givenUp(ask);
    service.last.begin();
    expect(service.told).toEqual(['1 not-started']);
    expect([failed(service), service.inFlight]).toEqual([0, 0]);
  },
);
