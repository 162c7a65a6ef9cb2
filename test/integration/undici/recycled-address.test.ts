import { createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import type { Pod } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { Cluster } from './support/cluster.js';
import { OtherService } from './support/other-service.js';
import { report } from './support/proof.js';
import { Traffic, through } from './support/traffic.js';

const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
const certificate = createCertificate({ hosts: ['orders.shop'], issuer: authority });
/** Good, and signed by an authority we trust: only the name is another. */
const foreign = createCertificate({ hosts: ['billing.shop'], issuer: authority });

let cluster: Cluster;
let orders: ServiceDispatcher;
let other: OtherService | undefined;

afterEach(async () => {
  await orders.destroy();
  await other?.[Symbol.asyncDispose]();
  other = undefined;
  await cluster[Symbol.asyncDispose]();
});

const members = (): readonly string[] =>
  orders.balancer
    .snapshot()
    .endpoints.filter(({ state }) => state !== 'draining' && state !== 'closed')
    .map(({ address }) => address);
const isMember = ({ host, port }: Pod): boolean => members().includes(`${host}:${port}`);

describe('the address of one of our pods now belongs to another Service', () => {
  describe.each([
    ['plain', undefined],
    ['TLS', { ours: certificate, theirs: foreign }],
  ] as const)('%s', (name, tls) => {
    const start = async (): Promise<Pod> => {
      cluster = await Cluster.start(3, { ...(tls && { tls: tls.ours }) });
      orders = createDispatcher(tls ? 'https://orders.shop:8080' : 'http://orders.shop:8080', {
        resolver: cluster.resolver(),
        ...(tls && { tls: { ca: authority.cert } }),
      });
      await connected(orders.balancer, 3);
      return cluster.pods[1] as Pod;
    };
    const takeOver = async ({ port }: Pod): Promise<OtherService> => {
      other = await OtherService.start({ port, ...(tls && { tls: tls.theirs }) });
      return other;
    };
    const flows = async (traffic: Traffic): Promise<void> => {
      const then = traffic.answered;
      await until('traffic flows', () => traffic.answered > then + 200);
    };

    it('a pod that left in order: not a byte of ours ever gets there', async () => {
      const leaving = await start();
      const traffic = new Traffic(12, through(orders));
      await flows(traffic);
      // Its process is gone, its name still in the slices.
      await cluster.endPod(leaving);
      const successor = await takeOver(leaving);
      await flows(traffic);
      await traffic.stop();
      expect(traffic.failed()).toEqual([]);
      expect(await successor.counts()).toEqual({ connections: 0, rawBytes: 0, requestBytes: 0, ids: [] });
    });

    it('a pod that died: none of our requests gets there once its slice said so, and over TLS none ever', async () => {
      const dying = await start();
      const traffic = new Traffic(12, through(orders));
      await flows(traffic);
      await dying.kill();
      // At once, and before anybody has told us: the worst there is.
      const successor = await takeOver(dying);
      await until('we try its address again', async () => (await successor.counts()).connections > 0);
      await flows(traffic);
      const blind = await successor.counts();
      cluster.set(dying, { ready: false, terminating: true });
      await until('the slice event is applied', () => !isMember(dying));
      const begun = traffic.calls.length;
      const ownIds = new Set(traffic.calls.map(({ id }) => id));
      await until('all that ran then has ended', () => {
        const running = traffic.calls.slice(0, begun).filter(({ endedMs }) => Number.isNaN(endedMs));
        return running.length === 0;
      });
      const told = await successor.counts();
      await flows(traffic);
      cluster.remove(dying);
      await flows(traffic);
      await traffic.stop();
      const after = await successor.counts();
      report(`address taken over, ${name}`, {
        'request bytes before the event': told.requestBytes,
        'after it': after.requestBytes - told.requestBytes,
        'all bytes after it': after.rawBytes - told.rawBytes,
      });
      expect(after).toEqual(told);
      expect(after.ids.filter((id) => !ownIds.has(id))).toEqual([]);
      expect(
        traffic.failed('GET').filter(({ startedMs }) => startedMs > (traffic.calls[begun]?.startedMs ?? 0)),
      ).toEqual([]);
      if (tls !== undefined) expect(after.requestBytes).toBe(0);
      else expect(blind.requestBytes).toBeGreaterThan(0);
    });
  });
});
