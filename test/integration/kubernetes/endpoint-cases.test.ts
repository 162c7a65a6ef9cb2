import { describe, expect, it } from 'vitest';
import { addresses, endpointCases, sliceObject } from '../../support/fixtures/endpoint-cases.js';
import { cleanUpAfterEach, openApi, Probe, WatchingBalancer } from './harness.js';

cleanUpAfterEach();

/** 'a b:8080#u1' as keys. */
function keysOf(text: string): string {
  return text
    .split(' ')
    .filter(Boolean)
    .map((item) => {
      const [, name, port, uid] = /^([a-z0-9]+)(?::(\d+))?(?:#(.+))?$/.exec(item) as unknown as [
        string,
        string,
        string?,
        string?,
      ];
      const address = addresses[name] as string;
      return `${address.includes(':') ? `[${address}]` : address}:${port ?? 80}${uid === undefined ? '' : `#${uid}`}`;
    })
    .sort()
    .join(' ');
}

describe('from slices sent by an API server to the set in use', () => {
  for (const { id, title, port, family, zone, node, steps } of endpointCases) {
    it(`case ${id}: ${title}`, async () => {
      const api = await openApi();
      let watching: WatchingBalancer | undefined;
      let probe: Probe | undefined;
      for (const { slices, thenMs, expect: set, opened, draining, published } of steps) {
        const before = watching?.published ?? 0;
        for (const [name, spec] of Object.entries(slices)) {
          if (spec === null) api.slices.delete(name, 'shop');
          else api.slices.put(sliceObject(name, spec));
        }
        if (watching === undefined) {
          const topology = zone === undefined && node === undefined ? undefined : { zone, nodeName: node };
          watching = new WatchingBalancer(
            api,
            { ...(port === undefined ? {} : { port }), ...(family === undefined ? {} : { family }) },
            topology,
          );
          // An empty set is ready, too (W16).
          await watching.balancer.ready();
          // Written after the first look: for the case of an empty Service there is nothing but the placeholder.
          probe = new Probe(api, watching.clock);
          await probe.start();
        } else {
          // Far enough from the last publication for the next one to be due at once.
          await watching.clock.advanceAsync(60);
        }
        await probe?.inStep();
        if (thenMs !== undefined) await watching.clock.advanceAsync(thenMs);
        expect(watching.set).toBe(keysOf(set));
        if (opened !== undefined) expect(watching.transport.connections.length).toBe(opened);
        if (draining !== undefined) expect(watching.draining).toBe(keysOf(draining));
        if (published !== undefined) expect(watching.published > before).toBe(published);
      }
    });
  }
});
