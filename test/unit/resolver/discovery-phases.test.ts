import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ResolveError } from '../../../src/errors.js';
import { type DiscoveryOptions, type DiscoveryPhase, DiscoveryWatch } from '../../../src/resolver/discovery.js';
import { resolveDnsOptions } from '../../../src/resolver/dns.js';
import { WrongTarget } from '../../../src/resolver/wrong-target.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { FakeDnsClient } from '../../support/fixtures/fake-dns-client.js';
import { RecordingListener } from '../../support/fixtures/recording-listener.js';

const source = readFileSync(new URL('../../../src/resolver/discovery-choice.ts', import.meta.url), 'utf8');

/** A line of the table in the comment of `choose`; a text too long for one line goes on in the next. */
interface Row {
  readonly name: string;
  readonly published: readonly string[];
  readonly follows: string;
  readonly next: readonly string[];
}

function tableOf(text: string): Row[] {
  const lines = [...text.matchAll(/^ \* {3}(.*?) *\| *(.*?) *\| *(.*?) *\| (.*)$/gm)].map(([, ...cells]) => cells);
  const rows: string[][] = [];
  for (const [name = '', published = '', follows = '', ways = ''] of lines.slice(1)) {
    const last = rows.at(-1);
    if (name === '' && last !== undefined) last[3] += ` ${ways}`;
    else rows.push([name, published, follows, ways]);
  }
  return rows.map(([name = '', published = '', follows = '', ways = '']) => ({
    name,
    published: published.split(', '),
    follows,
    next: [...ways.matchAll(/: ([A-Z])\b/g)].map(([, phase = '']) => phase),
  }));
}

const table = tableOf(source);

function nameOf({ published, follows }: DiscoveryPhase): string {
  const found = table.filter((row) => row.published.includes(published) && row.follows === follows);
  return found.map(({ name }) => name).join() || `${published} and follows ${follows}`;
}

const orders = 'orders.shop.svc.cluster.local';

/** A discovery to which things happen at random. */
class Walk {
  readonly steps = new Set<string>();
  readonly #rng;
  readonly #clock = new FakeClock(0);
  readonly #client = new FakeDnsClient();
  readonly #slices = new FakeResolver();
  readonly #watch: DiscoveryWatch;
  #counted: (count: number) => void = () => {};
  #phase: string;

  constructor(seed: number) {
    this.#rng = seededRng(seed);
    const hasSlices = this.#rng.next() < 0.8;
    const resolved = resolveDnsOptions({
      host: 'x',
      port: 1,
      client: () => this.#client,
      clusterDomain: 'cluster.local',
      namespace: 'web',
    });
    const { host: _host, port: _port, srv: _srv, ...dns } = resolved;
    const options: DiscoveryOptions = {
      target: 'orders.shop:80',
      host: 'orders.shop',
      port: 80,
      slices: async (_service, counted) => {
        this.#counted = counted;
        return hasSlices ? this.#slices : 'this is no pod';
      },
      dns,
      slots: { connections: 2, connectionAgeMs: 60_000 },
      sliceGraceMs: 2_500,
    };
    const context = { clock: this.#clock, rng: this.#rng, observer: {} };
    this.#watch = new DiscoveryWatch(options, new RecordingListener(), context);
    this.#phase = nameOf(this.#watch.phase);
  }

  async go(events: number): Promise<void> {
    await this.#look(0);
    for (let event = 0; event < events; event++) {
      const happens = this.#events[Math.floor(this.#rng.next() * this.#events.length)];
      // Without a watch of slices only DNS has news.
      if (this.#slices.watchers > 0 || event % 2 === 0) happens?.();
      await this.#look(0);
      if (this.#rng.next() < 0.5) await this.#look([500, 2_500, 66_000][Math.floor(this.#rng.next() * 3)] as number);
    }
    this.#watch.close();
    expect([this.#clock.timers, this.#slices.watchers]).toEqual([0, 0]);
  }

  /** Lets time pass, and notes how the phase changes. */
  async #look(ms: number): Promise<void> {
    for (let passed = 0; passed <= ms; passed += 500) {
      this.#clock.advance(passed === 0 ? 0 : 500);
      // DNS answers within a few of these turns: none of the phases in between is missed.
      for (let turn = 0; turn < 40; turn++) {
        this.#note();
        await Promise.resolve();
      }
    }
  }

  #note(): void {
    const phase = nameOf(this.#watch.phase);
    if (phase !== this.#phase) this.steps.add(`${this.#phase} to ${phase}`);
    this.#phase = phase;
  }

  #show(...pods: string[]): void {
    if (this.#slices.watchers === 0) return;
    this.#counted(1);
    this.#slices.update(...pods.map((address) => ({ address, port: 8080 })));
  }

  #fail(error: ResolveError): void {
    if (this.#slices.watchers > 0) this.#slices.fail(error);
  }

  readonly #events: readonly (() => void)[] = [
    () => this.#show('10.0.0.1', '10.0.0.2'),
    () => this.#show(),
    () => {
      if (this.#slices.watchers === 0) return;
      this.#counted(0);
      this.#slices.update();
    },
    () => this.#fail(new ResolveError('refused', { code: 'EVENKEEL_FORBIDDEN', permanent: true })),
    () => this.#fail(new ResolveError('away')),
    () => this.#fail(new WrongTarget('service', 'there is no such Service')),
    () => this.#fail(new WrongTarget('port', 'the Service has no such port')),
    () => {
      if (this.#slices.watchers > 0) this.#slices.fresh();
    },
    () => this.#answer(['10.0.0.8', '10.0.0.9']),
    () => this.#answer(['10.96.0.7']),
    () => this.#answer('ENOTFOUND'),
    () => this.#answer('ESERVFAIL'),
  ];

  #answer(answer: readonly string[] | string): void {
    this.#client.answers[`A ${orders}.`] = answer;
  }
}

describe('the phases of a discovery', () => {
  it('are listed in the table of `choose`, each once', () => {
    expect(table.map(({ name }) => name).join('')).toBe('ABCDEFGH');
    const keys = table.flatMap(({ published, follows }) => published.map((mode) => `${mode} ${follows}`));
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('follow each other as the table says, and each listed transition exists', async () => {
    const steps = new Set<string>();
    for (let seed = 1; seed <= 60; seed++) {
      const walk = new Walk(seed);
      await walk.go(12);
      for (const step of walk.steps) steps.add(step);
    }
    const ways = table.flatMap(({ name, next }) => next.map((phase) => `${name} to ${phase}`));
    expect([...steps].sort()).toEqual(ways.sort());
  });
});
