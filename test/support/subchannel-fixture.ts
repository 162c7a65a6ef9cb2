import { expect } from 'vitest';
import { createEndpoint, type Endpoint, type EndpointInit } from '../../src/endpoint/endpoint.js';
import { inFlight } from '../../src/load/in-flight.js';
import type { Load } from '../../src/load/load.js';
import type { Observer } from '../../src/observe/observer.js';
import { Warnings } from '../../src/observe/warnings.js';
import { ConnectGate } from '../../src/pool/connect-gate.js';
import { type PoolOptions, resolvePoolOptions } from '../../src/pool/pool-options.js';
import { Retiring } from '../../src/pool/retiring.js';
import { Subchannel } from '../../src/pool/subchannel.js';
import type { Transport } from '../../src/pool/transport.js';
import type { Tracker } from '../../src/stage/stage.js';
import { FakeClock, settle } from '../../src/testing/fake-clock.js';
import { type FakeConnection, FakeTransport } from '../../src/testing/fake-transport.js';

export interface SubchannelFixtureOptions {
  readonly pool?: PoolOptions;
  readonly transport?: Transport<FakeConnection>;
  readonly observer?: Observer;
  readonly load?: Load;
  readonly tracker?: Tracker;
  readonly endpoint?: Partial<EndpointInit>;
}

/** One subchannel with everything it needs but without a pool; records its output. */
export class SubchannelFixture {
  readonly clock: FakeClock = new FakeClock();
  readonly fake: FakeTransport = new FakeTransport();
  /** State changes seen by observers, such as `ready → backoff`. */
  readonly changes: string[] = [];
  /** Calls of trackers. */
  readonly told: string[] = [];
  readonly warnings: string[] = [];
  /** How often the resolver was asked to refresh, and the picker to be rebuilt. */
  troubles = 0;
  rebuilds = 0;
  closed = 0;
  readonly endpoint: Endpoint;
  readonly retiring: Retiring<FakeConnection>;
  readonly subchannel: Subchannel<FakeConnection>;

  constructor(options: SubchannelFixtureOptions = {}) {
    const { clock } = this;
    const observer: Observer = {
      subchannelChanged: (event) => {
        this.changes.push(`${event.from} → ${event.to}`);
        options.observer?.subchannelChanged?.(event);
      },
      warned: ({ message }) => this.warnings.push(message),
    };
    const resolved = resolvePoolOptions({ maxConnectionAgeMs: Number.POSITIVE_INFINITY, ...options.pool });
    const warnings = new Warnings(observer, clock);
    this.retiring = new Retiring({ clock, options: resolved, warnings });
    this.endpoint = createEndpoint({ address: '10.0.0.1', port: 80, ...options.endpoint });
    const tracker: Tracker = options.tracker ?? {
      connected: () => this.told.push('connected'),
      disconnected: (error) => this.told.push(`disconnected ${error?.message ?? 'cleanly'}`),
      completed: ({ kind }, latencyMs) => this.told.push(`completed ${kind} ${latencyMs}`),
      closed: () => this.told.push('closed'),
    };
    this.subchannel = new Subchannel<FakeConnection>(
      this.endpoint,
      {
        transport: options.transport ?? this.fake,
        clock,
        // A mean draw: no jitter.
        rng: { next: () => 0.5 },
        observer,
        warnings,
        gate: new ConnectGate(resolved.maxConnecting, clock),
        options: resolved,
        readinessChanged: () => this.rebuilds++,
        capacityGained: () => {},
        troubled: () => this.troubles++,
        retire: (connection, how, isNeeded) => this.retiring.add(connection, how, isNeeded),
        subchannelClosed: () => this.closed++,
      },
      options.load ?? inFlight()(),
      [tracker],
    );
  }

  get state(): string {
    return this.subchannel.state;
  }

  /** The latest connection. */
  get last(): FakeConnection {
    const connection = this.fake.connections.at(-1);
    if (connection === undefined) throw new Error('none was opened');
    return connection;
  }

  /** How the endpoint treats connections from now on. */
  set behaviour(behaviour: 'accept' | 'refuse' | 'hang') {
    this.fake.behaviour.set('10.0.0.1:80', behaviour);
  }

  async open(): Promise<void> {
    this.subchannel.open();
    await settle();
  }

  /** A call that starts now. */
  call(): { end(outcome?: Parameters<Subchannel<FakeConnection>['end']>[2]): void } {
    const startedMs = this.clock.now();
    this.subchannel.start(startedMs);
    return {
      end: (outcome = { kind: 'success' }) => this.subchannel.end(startedMs, this.clock.now(), outcome, startedMs),
    };
  }
}

/** A fixture whose subchannel is ready. */
export async function readyFixture(options: SubchannelFixtureOptions = {}): Promise<SubchannelFixture> {
  const fixture = new SubchannelFixture(options);
  await fixture.open();
  expect(fixture.state).toBe('ready');
  return fixture;
}

/** Nothing is left: no timer, no connection, no attempt. */
export async function expectNothingLeft(fixture: SubchannelFixture): Promise<void> {
  await fixture.retiring.allClosed();
  await settle();
  expect(fixture.state).toBe('closed');
  expect(fixture.closed).toBe(1);
  expect(fixture.clock.timers).toBe(0);
  expect(fixture.fake.open()).toHaveLength(0);
  expect(fixture.fake.hanging).toBe(0);
  expect(fixture.told.at(-1)).toBe('closed');
}
