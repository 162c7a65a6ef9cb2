import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ApiServer, ServiceController } from 'evenkeel/testing/servers';
import { beforeEach, describe, expect, it } from 'vitest';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { atEnd, cleanUpAfterEach, openApi } from './harness.js';

interface Client {
  readonly number: number;
  readonly set: string;
  readonly isFailing: boolean;
  readonly watch?: 'own' | 'shared';
  readonly warnings: readonly string[];
}

/** What takes as long as it takes until somebody counts as silent. */
const isProof = process.env.EVENKEEL_PROOF === '1';

cleanUpAfterEach();

let api: ApiServer;
let orders: ServiceController;
beforeEach(async () => {
  api = await openApi({ tokens: { me: grants } });
  orders = api.service('shop', 'orders', { ports: [{ port: 80, targetPort: 8080 }] });
  scale(2);
});
const grants = [{ namespace: 'shop', verbs: ['list', 'watch'], resources: ['endpointslices'] }] as const;

let size = 0;
/** Writes a set of so many pods. */
function scale(pods: number): void {
  size = pods;
  orders.setPods(Array.from({ length: pods }, (_, index) => ({ name: `p${index}`, address: `10.0.0.${index + 1}` })));
}

const truth = (): string =>
  Array.from({ length: size }, (_, index) => `10.0.0.${index + 1}`)
    .sort()
    .join(' ');

/** Clients of one pod, and what each said last. */
class SharingPod {
  readonly clients = new Map<number, Client>();
  readonly foreign: unknown[] = [];
  readonly #count: number;
  readonly #child: ChildProcess;

  constructor(kind: 'workers' | 'threads', count: number, more: object = {}, client: object = {}) {
    this.#count = count;
    const file = fileURLToPath(new URL('support/sharing-pod.mjs', import.meta.url));
    const task = {
      kind,
      count,
      client: { apiServer: api.url, credentials: { token: 'me' }, streamingLists: false, ...client },
      ...more,
    };
    this.#child = fork(file, [JSON.stringify(task)], { execArgv: [] });
    this.#child.on('message', (message: Client & { readonly foreign?: number }) => {
      if (message.foreign !== undefined) this.foreign.push(message);
      else if (!this.#gone.has(message.number)) this.clients.set(message.number, message);
    });
    atEnd(async () => {
      const exited = once(this.#child, 'exit');
      this.#child.disconnect();
      await exited;
    });
  }

  readonly #gone = new Set<number>();

  order(order: string, to?: number, ms?: number): void {
    this.#child.send({ order, to, ms });
  }

  end(order: 'kill' | 'exit' | 'terminate', to: number): void {
    this.#gone.add(to);
    this.clients.delete(to);
    this.order(order, to);
  }

  get leader(): number {
    const leaders = [...this.clients.values()].filter(({ watch }) => watch === 'own');
    return leaders.length === 1 ? (leaders[0] as Client).number : -1;
  }

  async agrees(count = this.#count, timeoutMs = 30_000): Promise<void> {
    const all = (): readonly Client[] => [...this.clients.values()];
    const isSo = (): boolean =>
      all().length === count && all().every(({ set, isFailing }) => set === truth() && !isFailing);
    await until(`${count} have ${truth()}`, () => isSo(), timeoutMs).catch((error: Error) => {
      throw new Error(`${error.message}: ${JSON.stringify(all())} ${JSON.stringify(api.counts)}`);
    });
  }

  async oneLeads(): Promise<number> {
    await until('one leads', () => this.leader !== -1 && api.counts.openWatches === 1, 30_000);
    return this.leader;
  }
}

describe('8 workers of a cluster', () => {
  it('are one watch and one list; one that leads is replaced when it dies, without another list', async () => {
    const pod = new SharingPod('workers', 8);
    await pod.agrees(8, 60_000);
    const leader = await pod.oneLeads();
    expect(api.counts.openConnections).toBe(1);
    // One each; where a busy primary answers late a worker may have begun by itself.
    const { lists, watches } = api.counts;
    expect(lists).toBeLessThan(8);
    scale(5);
    await pod.agrees();
    pod.end('kill', leader);
    scale(3);
    // The primary starts another worker in its place.
    await pod.agrees();
    await pod.oneLeads();
    expect([api.counts.lists, api.counts.watches]).toEqual([lists, watches + 1]);
    const calm = [...pod.clients.keys()].find((number) => number !== pod.leader) as number;
    pod.end('kill', calm);
    scale(4);
    await pod.agrees();
    expect([api.counts.lists, api.counts.watches]).toEqual([lists, watches + 1]);
    for (const { warnings } of pod.clients.values()) expect(warnings).toEqual([]);
  });

  it('are told alike of rights taken away, and given back', async () => {
    const pod = new SharingPod('workers', 3);
    await pod.agrees();
    await pod.oneLeads();
    api.setTokens({ me: [] });
    api.disturb('end');
    await until('all know', () =>
      [...pod.clients.values()].every(({ isFailing, set }) => isFailing && set === truth()),
    );
    expect(api.counts.lists).toBeLessThan(6);
    api.setTokens({ me: grants });
    scale(4);
    // The pause after a refusal is 30 to 60 s; a new worker asks at once, and is one of those that share.
    expect([...pod.clients.values()].filter(({ watch }) => watch === 'own')).toHaveLength(1);
  });

  it('a primary that is blocked, a worker that floods, and messages of others do no harm', async () => {
    const pod = new SharingPod('workers', 4);
    await pod.agrees();
    const leader = await pod.oneLeads();
    const { lists } = api.counts;
    pod.order('block', undefined, isProof ? 5_000 : 500);
    scale(6);
    await pod.agrees();
    const follower = [...pod.clients.keys()].find((number) => number !== leader) as number;
    pod.order('forge', follower);
    scale(7);
    await pod.agrees();
    // Messages of other libraries pass as they are.
    expect(pod.foreign.length).toBe(4);
    await pod.oneLeads();
    expect(api.counts.lists).toBe(lists);
  });

  it('watch each by itself if the primary does not import evenkeel, and say so', async () => {
    const pod = new SharingPod('workers', 3, { loadsEvenkeel: false });
    await pod.agrees();
    await until('three watch', () => api.counts.openWatches === 3);
    if (!isProof) return;
    await until('they say so', () =>
      [...pod.clients.values()].every(({ warnings }) => warnings[0]?.includes('import evenkeel in the primary')),
    );
  });
});

describe('8 threads', () => {
  it('are one watch and one list; one that leads is replaced when it exits', async () => {
    const pod = new SharingPod('threads', 8);
    await pod.agrees(8, 60_000);
    const first = await pod.oneLeads();
    expect(api.counts.openConnections).toBe(1);
    const { lists, watches } = api.counts;
    expect(lists).toBeLessThan(8);
    pod.end('exit', first);
    scale(4);
    await pod.agrees(7);
    await pod.oneLeads();
    expect([api.counts.lists, api.counts.watches]).toEqual([lists, watches + 1]);
  });

  it.runIf(isProof)(
    titleOf('one that leads is replaced when it is terminated, and says nothing', isProof, 'npm run proof -- sharing'),
    async () => {
      const pod = new SharingPod('threads', 3);
      await pod.agrees();
      const leader = await pod.oneLeads();
      const { lists, watches } = api.counts;
      pod.end('terminate', leader);
      scale(3);
      await pod.agrees(2);
      await pod.oneLeads();
      expect([api.counts.lists, api.counts.watches]).toEqual([lists, watches + 1]);
    },
  );

  it.runIf(isProof)(
    titleOf('take over from one that is paused, and it follows when it wakes up', isProof, 'npm run proof -- sharing'),
    async () => {
      const pod = new SharingPod('threads', 3);
      await pod.agrees();
      const paused = await pod.oneLeads();
      const { lists } = api.counts;
      pod.order('block', paused, 9_000);
      scale(5);
      const others = (): Client[] => [...pod.clients.values()].filter(({ number }) => number !== paused);
      await until('the others have it', () => others().every(({ set }) => set === truth()), 20_000);
      await until('it is awake and follows', () => pod.clients.get(paused)?.watch === 'shared', 20_000);
      scale(2);
      await pod.agrees();
      await pod.oneLeads();
      expect(api.counts.lists).toBe(lists);
    },
  );

  it('with other rights, or of another Service, share nothing; the last one that leaves ends the watch', async () => {
    const pod = new SharingPod('threads', 2);
    await pod.agrees();
    await pod.oneLeads();
    const { lists } = api.counts;
    api.setTokens({ me: grants, other: grants });
    const other = new SharingPod('threads', 1, {}, { credentials: { token: 'other' } });
    await other.agrees();
    expect(api.counts.lists).toBe(lists + 1);
    for (const number of [...pod.clients.keys()]) pod.order('close', number);
    await until('one watch is left', () => api.counts.openWatches === 1);
  });
});
