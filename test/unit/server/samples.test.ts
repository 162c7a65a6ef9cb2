import { afterEach, describe, expect, it } from 'vitest';
import { Samples, type SamplesParts } from '../../../src/server/report/samples.js';
import { RequestCount } from '../../../src/server/request-count.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

const open: Samples[] = [];
afterEach(() => {
  for (const samples of open.splice(0)) samples.close();
});

interface World {
  readonly clock: FakeClock;
  readonly count: RequestCount;
  readonly samples: Samples;
  readonly files: Record<string, string>;
  /** The event loop's utilization from now on. */
  busy: number;
}

function world(more: Partial<SamplesParts> = {}): World {
  const clock = new FakeClock();
  const count = new RequestCount();
  const files: Record<string, string> = {
    '/proc/self/cgroup': '0::/\n',
    '/sys/fs/cgroup/cpu.max': '50000 100000\n',
    '/sys/fs/cgroup/cpu.stat': 'usage_usec 0\n',
  };
  const it: World = {
    clock,
    count,
    files,
    busy: 0.25,
    samples: new Samples({
      clock,
      count,
      sampleMs: 1_000,
      utilization: undefined,
      metrics: undefined,
      read: async (path) => files[path],
      eventLoop: (since) => ({ idle: 0, active: 0, utilization: since === undefined ? 0 : it.busy }),
      ...more,
    }),
  };
  open.push(it.samples);
  return it;
}

describe('the samples of a pod', () => {
  it("survive an application's functions that are async by mistake and reject", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    const rejecting = (async () => Promise.reject(new Error('broken'))) as never;
    const { samples, clock } = world({ utilization: rejecting, metrics: rejecting });
    await clock.advanceAsync(2_000);
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(samples.load).toMatchObject({ rps_fractional: 0 });
    expect(unhandled).toEqual([]);
  });

  it('are empty until there are two', async () => {
    const { samples, clock } = world();
    await clock.advanceAsync(0);
    expect(samples.load).toEqual({ named_metrics: {} });
  });

  it('give the used part of the limit, how busy the event loop was, and requests per second', async () => {
    const { samples, clock, count, files } = world();
    await clock.advanceAsync(0);
    // Of half a core, 200 ms in a second are 40 %.
    files['/sys/fs/cgroup/cpu.stat'] = 'usage_usec 200000\n';
    for (let call = 0; call < 30; call++) count.began();
    for (let call = 0; call < 20; call++) count.ended(call < 5);
    await clock.advanceAsync(1_000);
    expect(samples.load).toEqual({
      application_utilization: 0.4,
      cpu_utilization: 0.4,
      rps_fractional: 30,
      eps: 5,
      named_metrics: { evenkeel_event_loop: 0.25 },
    });
    await clock.advanceAsync(1_000);
    expect(samples.load).toMatchObject({ cpu_utilization: 0, application_utilization: 0.25, rps_fractional: 0 });
  });

  it('prefer what the application reports, and include its metrics', async () => {
    const { samples, clock } = world({ utilization: () => 0.9, metrics: () => ({ 'queue:jobs': 7, tokens: 1.5 }) });
    await clock.advanceAsync(0);
    await clock.advanceAsync(1_000);
    expect(samples.load).toMatchObject({ application_utilization: 0.9 });
    expect(samples.load.named_metrics).toEqual({ evenkeel_event_loop: 0.25, 'queue:jobs': 7, tokens: 1.5 });
  });

  it('leave out invalid measures, those that cannot be sent, and those beyond the limit', async () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`n${index}`, index]));
    const { samples, clock } = world({
      utilization: () => Number.NaN,
      metrics: () => ({ 'a,b=': 1, 'c\r\nd': 1, negative: -1, endless: Infinity, evenkeel_in_flight: 0, ...many }),
    });
    await clock.advanceAsync(0);
    await clock.advanceAsync(1_000);
    expect(samples.load).not.toHaveProperty('application_utilization');
    const { named_metrics } = samples.load;
    expect(Object.keys(named_metrics)).toHaveLength(33);
    expect(Object.keys(named_metrics).every((name) => /^(n\d+|evenkeel_event_loop)$/.test(name))).toBe(true);
  });

  it('continue when the application throws, or files cannot be read any more', async () => {
    const thrown = (): never => {
      throw new Error('of the application');
    };
    const { samples, clock, files } = world({ utilization: thrown, metrics: thrown });
    await clock.advanceAsync(0);
    await clock.advanceAsync(1_000);
    delete files['/sys/fs/cgroup/cpu.stat'];
    await clock.advanceAsync(1_000);
    expect(samples.load).not.toHaveProperty('cpu_utilization');
    expect(samples.load).toMatchObject({ rps_fractional: 0 });
  });

  it('follow a limit that changes while the pod runs', async () => {
    const { samples, clock, files } = world();
    let usedMs = 0;
    const second = async (): Promise<void> => {
      usedMs += 100;
      files['/sys/fs/cgroup/cpu.stat'] = `usage_usec ${usedMs * 1_000}\n`;
      await clock.advanceAsync(1_000);
    };
    await clock.advanceAsync(0);
    await second();
    expect(samples.load.cpu_utilization).toBe(0.2);
    files['/sys/fs/cgroup/cpu.max'] = '100000 100000\n';
    for (let seconds = 0; seconds < 32; seconds++) await second();
    expect(samples.load.cpu_utilization).toBe(0.1);
  });

  it('end when they are closed', async () => {
    const { samples, clock } = world();
    await clock.advanceAsync(0);
    samples.close();
    await clock.advanceAsync(10_000);
    expect(samples.load).toEqual({ named_metrics: {} });
    expect(clock.timers).toBe(0);
  });
});
