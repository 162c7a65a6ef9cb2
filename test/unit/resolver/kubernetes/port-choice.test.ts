import { describe, expect, it } from 'vitest';
import type { ResolveError } from '../../../../src/errors.js';
import { ApiFailure } from '../../../../src/resolver/kubernetes/api-failure.js';
import type { EndpointSlice } from '../../../../src/resolver/kubernetes/endpoint-slice.js';
import { PortChoice } from '../../../../src/resolver/kubernetes/port-choice.js';
import type { ServicePorts } from '../../../../src/resolver/kubernetes/service-ports.js';
import { FakeClock, settle } from '../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../src/testing/seeded-rng.js';

class Choosing {
  readonly clock = new FakeClock();
  readonly choice: PortChoice;
  lookups = 0;
  changes = 0;
  error: ResolveError | undefined;
  errors = 0;
  answer: () => Promise<ServicePorts> = async () => new Map();

  constructor(port: string | number | undefined) {
    this.choice = new PortChoice({
      port,
      subject: 'shop/orders',
      lookup: () => {
        this.lookups += 1;
        return this.answer();
      },
      clock: this.clock,
      rng: seededRng(1),
      changed: () => {
        this.changes += 1;
      },
      failed: (error) => {
        this.error = error;
        this.errors += 1;
      },
    });
  }

  /** Chooses among slices that show these port names. */
  among(...names: readonly string[]): string | undefined {
    const ports = names.map((name, index) => ({ name, port: 8000 + index }));
    return this.choice.choose([
      { name: 's', version: '1', family: 'IPv4', ports, members: [], malformed: [] } satisfies EndpointSlice,
    ]);
  }
}

const table: ServicePorts = new Map([
  [80, 'http'],
  [9090, 'metrics'],
]);

describe('S11 which port is meant', () => {
  it('a name is matched as it is', () => {
    const choosing = new Choosing('http');
    expect(choosing.among('metrics', 'admin')).toBe('http');
    expect(choosing.lookups).toBe(0);
  });

  it('a number, one port name: that one, whatever its number', () => {
    const choosing = new Choosing(80);
    expect(choosing.among('http')).toBe('http');
    expect(choosing.among('')).toBe('');
    expect(choosing.among()).toBe('');
    expect(choosing.lookups).toBe(0);
  });

  it("a number, several names: the Service's own table, asked for once", async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => table;
    expect(choosing.among('http', 'metrics')).toBeUndefined();
    await settle();
    expect(choosing.changes).toBe(1);
    expect(choosing.among('http', 'metrics')).toBe('http');
    expect(choosing.among('metrics', 'http')).toBe('http');
    expect(choosing.lookups).toBe(1);
    expect(choosing.error).toBeUndefined();
  });

  it('other names: asked again, the old answer holds meanwhile', async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => table;
    choosing.among('http', 'metrics');
    await settle();
    choosing.answer = async () => new Map([[80, 'web']]);
    expect(choosing.among('http', 'metrics', 'web')).toBe('http');
    await settle();
    expect(choosing.among('http', 'metrics', 'web')).toBe('web');
    expect(choosing.lookups).toBe(2);
  });

  it('the table may not be read: a coded error that lists the names, and another try after half a minute', async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => {
      throw new ApiFailure('forbidden', 'status 403', '403 Forbidden');
    };
    choosing.among('http', 'metrics');
    await settle();
    expect(choosing.error).toMatchObject({ code: 'EVENKEEL_PORT_AMBIGUOUS', permanent: true });
    expect(choosing.error?.message).toContain('"http", "metrics"');
    expect(choosing.error?.message).toContain('get on services');
    choosing.among('http', 'metrics');
    expect(choosing.lookups).toBe(1);
    choosing.answer = async () => table;
    choosing.clock.advance(60_000);
    choosing.among('http', 'metrics');
    await settle();
    expect(choosing.among('http', 'metrics')).toBe('http');
    expect(choosing.error).toBeUndefined();
    expect(choosing.errors).toBe(2);
  });

  it('the table does not have the number: an error that says what it has, never a guess', async () => {
    const choosing = new Choosing(8000);
    choosing.answer = async () => table;
    // 8000 is the pods' number of "http": equal numbers mean nothing.
    expect(choosing.among('http', 'metrics')).toBeUndefined();
    await settle();
    expect(choosing.among('http', 'metrics')).toBeUndefined();
    expect(choosing.error?.message).toContain('has no TCP port 8000; it has 80 "http", 9090 "metrics"');
  });

  it('the table cannot be read for now: told, and tried again soon', async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => {
      throw new Error('ECONNREFUSED');
    };
    choosing.among('http', 'metrics');
    await settle();
    expect(choosing.error).toMatchObject({ code: 'EVENKEEL_RESOLVE', permanent: false });
    choosing.answer = async () => table;
    choosing.clock.advance(1_600);
    choosing.among('http', 'metrics');
    await settle();
    expect(choosing.among('http', 'metrics')).toBe('http');
  });

  it('no port at all, several names: a coded error without a look-up; one name: that one', () => {
    const choosing = new Choosing(undefined);
    expect(choosing.among('http')).toBe('http');
    expect(choosing.among('http', 'metrics')).toBeUndefined();
    expect(choosing.error).toMatchObject({ code: 'EVENKEEL_PORT_AMBIGUOUS' });
    expect(choosing.lookups).toBe(0);
    expect(choosing.among('http')).toBe('http');
    expect(choosing.error).toBeUndefined();
  });

  it('close stops a look-up and its retry', async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => {
      throw new Error('no');
    };
    choosing.among('http', 'metrics');
    await settle();
    choosing.choice.close();
    expect(choosing.clock.timers).toBe(0);
  });
});
