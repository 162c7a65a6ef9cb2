import { type Dispatcher, errors } from 'undici';
import { describe, expect, it } from 'vitest';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { type Caller, HedgeFixture } from '../../../support/fixtures/fake-pod-pool.js';

const refused = (): Error => Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });

/** A Service of one pod at a time, whose pods leave while a request of ours is on its way to them. */
class MovingFixture extends HedgeFixture {
  readonly #resolver: FakeResolver;
  #pods = 0;

  constructor(options: ConstructorParameters<typeof HedgeFixture>[1] = {}) {
    const resolver = new FakeResolver();
    super(0, { ...options, resolver });
    this.#resolver = resolver;
    this.beginsAtOnce = false;
  }

  /** The next pod takes the place of the one there is. */
  async replace(): Promise<void> {
    this.#pods++;
    this.#resolver.update({ address: `10.0.${this.#pods >> 8}.${this.#pods & 255}`, port: 80 });
    await this.clock.advanceAsync(1_000);
  }

  /** The pod the latest request is on its way to leaves before a byte of it was sent. */
  async leave(): Promise<void> {
    const { last } = this;
    await this.replace();
    last.beginOrFail();
    await this.clock.advanceAsync(0);
  }
}

const fixture = async (options?: ConstructorParameters<typeof HedgeFixture>[1]): Promise<MovingFixture> => {
  const moving = new MovingFixture(options);
  await moving.replace();
  return moving;
};

describe.each<[string, (of: MovingFixture, method: Dispatcher.HttpMethod) => Caller]>([
  ['a request', (of, method) => of.askPlainly({ method })],
  ['a request that may have several answers', (of, method) => of.ask({ method })],
])('%s whose pod leaves before it was sent', (_what, ask) => {
  it('moves to the next pod, and keeps all its attempts', async () => {
    const moving = await fixture();
    const caller = ask(moving, 'POST');
    for (let move = 1; move <= 10; move++) await moving.leave();
    for (let attempt = 1; attempt < 3; attempt++) {
      moving.last.fail(refused());
      await moving.clock.advanceAsync(0);
    }
    moving.last.begin().answer(200, 'at last');
    expect(caller.heard).toEqual(['200', 'at last', 'end']);
    expect(moving.told).toEqual([
      ...Array.from({ length: 12 }, (_, index) => `${index + 1} not-started again`),
      '13 success',
    ]);
    expect(moving.inFlight).toBe(0);
  });

  it('gets no more attempts than without the moves', async () => {
    const moving = await fixture();
    const caller = ask(moving, 'GET');
    for (let move = 1; move <= 5; move++) await moving.leave();
    for (let attempt = 1; attempt <= 3; attempt++) {
      moving.last.fail(refused());
      await moving.clock.advanceAsync(0);
    }
    expect(caller.heard).toEqual(['error']);
    expect(caller.error?.message).toBe('refused');
    expect(moving.told.at(-1)).toBe('8 not-started');
    expect(moving.inFlight).toBe(0);
  });

  it('is not moved forever: after 100 times a move counts as a retry, and costs as much', async () => {
    const moving = await fixture();
    const caller = ask(moving, 'POST');
    for (let move = 1; move <= 103 && caller.error === undefined; move++) await moving.leave();
    expect(caller.error?.message).toContain('left the Service before the request was sent');
    expect(moving.requests).toHaveLength(103);
    expect(moving.inFlight).toBe(0);
  });

  it('moves for free', async () => {
    const moving = await fixture({ retry: { maxAttempts: 1, budget: { ratio: 0, minPerSecond: 0 } } });
    const caller = ask(moving, 'POST');
    for (let move = 1; move <= 10; move++) await moving.leave();
    moving.last.begin().answer(200);
    expect(caller.heard[0]).toBe('200');
    expect(moving.balancer.snapshot().counts).toMatchObject({ retries: { 'not-started': 10 }, overBudget: 0 });
  });

  it.each([errors.ClientClosedError, errors.ClientDestroyedError])(
    'and whose pool was closed under it moves as well, even if nothing may be repeated (%o)',
    async (GivenUp) => {
      const moving = await fixture({ retry: { maxAttempts: 1, budget: { ratio: 0, minPerSecond: 0 } } });
      const caller = ask(moving, 'POST');
      moving.last.fail(new GivenUp());
      await moving.clock.advanceAsync(0);
      moving.last.begin().answer(200, 'at last');
      expect(caller.heard).toEqual(['200', 'at last', 'end']);
      expect(moving.told).toEqual(['1 not-started again', '2 success']);
      expect(moving.inFlight).toBe(0);
    },
  );

  it('and whose pool is closed once it was sent fails as usual', async () => {
    const moving = await fixture({ retry: { maxAttempts: 1 } });
    const caller = ask(moving, 'GET');
    moving.last.begin().fail(new errors.ClientDestroyedError());
    await moving.clock.advanceAsync(0);
    expect(caller.heard).toEqual(['error']);
    expect(moving.inFlight).toBe(0);
  });
});
