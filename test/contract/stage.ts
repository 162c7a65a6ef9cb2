import { describe, expect, it } from 'vitest';
import { Attributes, attributeKey } from '../../src/endpoint/attributes.js';
import { outcomes } from '../../src/endpoint/outcome.js';
import type { StageFactory } from '../../src/stage/stage.js';
import { addresses, StageFixture } from '../support/fixtures/stage-fixture.js';

/** What every stage owes. */
export function stageContract(name: string, stages: readonly StageFactory[]): void {
  const fixture = (): StageFixture => new StageFixture(stages);

  describe(name, () => {
    it('leaves an empty set empty', () => {
      const pods = fixture();
      pods.set([]);
      expect(pods.result.size).toBe(0);
    });

    it('adds no endpoint and repeats none', () => {
      const pods = fixture();
      pods.set(addresses(20));
      const keys = pods.result.entries.map(({ endpoint }) => endpoint.key);
      expect(new Set(keys).size).toBe(keys.length);
      expect(keys.every((key) => addresses(20).includes(key.split(':')[0] as string))).toBe(true);
    });

    it('leaves version, endpoints and attributes as they are', () => {
      const pods = fixture();
      const colour = attributeKey<string>('colour');
      const attributes = Attributes.empty.with(colour, 'red');
      pods.set(addresses(3).map((address) => ({ address, attributes })));
      pods.set(addresses(3).map((address) => ({ address, attributes })));
      expect(pods.result.version).toBe(2);
      for (const { endpoint } of pods.result.entries) expect(endpoint.attributes.get(colour)).toBe('red');
    });

    it('keeps the fields of an entry that it does not know', () => {
      const marked: StageFactory = () => ({
        apply: (set) => set.map((entry) => Object.assign({ ...entry }, { colour: 'red' })),
      });
      const pods = new StageFixture([marked, ...stages]);
      pods.set(addresses(6));
      for (const address of addresses(6)) pods.completed(address, outcomes.timeout, 30);
      for (const entry of pods.result.entries) expect(entry).toMatchObject({ colour: 'red' });
    });

    it('sets weights that are numbers of 0 or more', () => {
      const pods = fixture();
      pods.set(addresses(10).map((address, index) => ({ address, weight: 0.5 + index })));
      pods.clock.advance(5_000);
      for (const { weight } of pods.result.entries) {
        expect(Number.isFinite(weight)).toBe(true);
        expect(weight).toBeGreaterThanOrEqual(0);
      }
    });

    it('leaves something to pick, whatever happens to the endpoints', () => {
      const pods = fixture();
      pods.set(addresses(5));
      for (const address of addresses(5)) {
        pods.completed(address, outcomes.timeout, 30);
        expect(pods.usable.length).toBeGreaterThan(0);
      }
      for (const address of addresses(5)) pods.disconnected(address, new Error('refused'));
      expect(pods.usable.length).toBeGreaterThan(0);
      pods.clock.advance(120_000);
      expect(pods.usable.length).toBeGreaterThan(0);
    });

    it('returns the same result while nothing happens', () => {
      const pods = fixture();
      pods.set(addresses(6));
      pods.clock.advance(3_600_000);
      const first = pods.result;
      const again = first.entries.map(({ endpoint, weight, suspect }) => [endpoint.key, weight, suspect]);
      pods.set(addresses(6));
      expect(pods.result.entries.map(({ endpoint, weight, suspect }) => [endpoint.key, weight, suspect])).toEqual(
        again,
      );
    });

    it('forgets endpoints that left, and leaves no timer behind', () => {
      const pods = fixture();
      pods.set(addresses(4));
      for (const address of addresses(4)) pods.completed(address, outcomes.timeout, 30);
      pods.set([]);
      pods.clock.advance(1_000);
      expect(pods.clock.timers).toBe(0);
      pods.set(addresses(4));
      expect(pods.result.entries.every(({ suspect }) => !suspect)).toBe(true);
      pods.close();
      expect(pods.clock.timers).toBe(0);
    });

    it('runs at most once per turn of the event loop, however much happens in it', () => {
      const pods = fixture();
      pods.set(addresses(4));
      const before = pods.runs;
      pods.inOneTurn(() => {
        for (const address of addresses(4)) pods.completed(address, outcomes.timeout, 30);
        for (const address of addresses(4)) pods.disconnected(address, new Error('refused'));
      });
      expect(pods.runs - before).toBeLessThanOrEqual(1);
    });
  });
}
