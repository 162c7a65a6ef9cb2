import { describe, expect, it } from 'vitest';
import type { ResolveError } from '../../../../../src/errors.js';
import { ApiFailure } from '../../../../../src/resolver/kubernetes/api/api-failure.js';
import { type EndpointSlice, parseSlice } from '../../../../../src/resolver/kubernetes/slices/endpoint-slice.js';
import {
  parseService,
  portNames,
  type ServiceFacts,
} from '../../../../../src/resolver/kubernetes/slices/service-ports.js';
import { type PortChoice, portOf, ServiceObject } from '../../../../../src/resolver/kubernetes/watch/service-object.js';
import { FakeClock, settle } from '../../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';

type SliceShape = Partial<Pick<EndpointSlice, 'ports' | 'isHeadless' | 'members'>>;

const someSlice = parseSlice(
  {
    metadata: { name: 's', labels: { 'kubernetes.io/service-name': 'orders' } },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.0.0.1'] }],
    ports: [{ name: 'http', port: 8000 }],
  },
  'orders',
) as EndpointSlice;

class Choosing {
  readonly clock = new FakeClock();
  readonly service: ServiceObject;
  readonly #port: string | number | undefined;
  #last: string | undefined;
  lookups = 0;
  changes = 0;
  error: ResolveError | undefined;
  errors = 0;
  answer: () => Promise<ServiceFacts> = async () => parseService({});

  constructor(port: string | number | undefined) {
    this.#port = port;
    this.service = new ServiceObject({
      read: () => {
        this.lookups += 1;
        return this.answer();
      },
      clock: this.clock,
      rng: seededRng(1),
      changed: () => {
        this.changes += 1;
      },
    });
  }

  /** Chooses among slices that show these port names, as a view of the slices does. */
  among(...names: readonly string[]): string | undefined {
    return this.look({ ports: names.map((name, index) => ({ name, port: 8000 + index })), members: [] }).name;
  }

  /** Chooses among one slice. */
  look(shape: SliceShape): PortChoice {
    const slice = { ...someSlice, ...shape };
    const { service } = this;
    service.show(portNames([slice]));
    const wanted = { port: this.#port, subject: 'shop/orders', last: this.#last };
    const choice = portOf(wanted, [slice], service.known);
    if (choice.isOpen) service.want();
    if (choice.error !== undefined) service.again();
    if (choice.isCertain) this.#last = choice.name;
    if (this.error?.message !== choice.error?.message) this.errors += 1;
    this.error = choice.error;
    return choice;
  }
}

const service = (ports: readonly object[], spec: object = {}): ServiceFacts =>
  parseService({ spec: { ports, ...spec } });
const http = { name: 'http', port: 80 };
const metrics = { name: 'metrics', port: 9090 };
const table = service([http, metrics]);
const denied = async (): Promise<never> => {
  throw new ApiFailure('forbidden', 'status 403', '403 Forbidden');
};

describe('S11 the port that a target means', () => {
  it('a name: matched as it is', () => {
    const choosing = new Choosing('http');
    expect(choosing.among('http', 'metrics')).toBe('http');
    expect(choosing.lookups).toBe(0);
  });

  it('a number, one port name: that port, once the Service confirms the number', async () => {
    for (const name of ['http', '']) {
      const choosing = new Choosing(80);
      choosing.answer = async () => service([name === '' ? { port: 80 } : http]);
      expect(choosing.among(name)).toBeUndefined();
      await settle();
      expect(choosing.among(name)).toBe(name);
      expect(choosing.among()).toBe('');
      expect([choosing.lookups, choosing.error]).toEqual([1, undefined]);
    }
  });

  it('a number is looked up again after the Service was deleted and created with other numbers for the same names', async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => table;
    choosing.among('http', 'metrics');
    await settle();
    expect(choosing.among('http', 'metrics')).toBe('http');
    choosing.among();
    choosing.answer = async () =>
      service([
        { name: 'http', port: 9090 },
        { name: 'metrics', port: 80 },
      ]);
    expect(choosing.among('http', 'metrics')).toBe('http');
    await settle();
    expect(choosing.among('http', 'metrics')).toBe('metrics');
  });

  it('a number the Service does not have, one port name: an error with the ports it has, and another lookup later', async () => {
    const choosing = new Choosing(9999);
    choosing.answer = async () => service([http, { name: 'dns', port: 53, protocol: 'UDP' }]);
    choosing.among('http');
    await settle();
    expect(choosing.among('http')).toBeUndefined();
    expect(choosing.error).toMatchObject({ code: 'EVENKEEL_RESOLVE', permanent: true });
    expect(choosing.error?.message).toBe('Service shop/orders has no port 9999; it has http 80, dns 53 (UDP)');
    for (let look = 2; look < 5; look++) {
      choosing.clock.advance(60_000);
      await settle();
      choosing.among('http');
      expect(choosing.lookups).toBe(look);
    }
    choosing.answer = async () => service([{ ...http, port: 9999 }]);
    choosing.clock.advance(60_000);
    await settle();
    expect(choosing.among('http')).toBe('http');
    expect(choosing.error).toBeUndefined();
  });

  it.each<[string, SliceShape, object, 'permitted' | 'forbidden']>([
    ['that the Service lists', {}, { clusterIP: 'None' }, 'permitted'],
    [
      'that the Service has for another number',
      {},
      { clusterIP: 'None', ports: [{ ...http, port: 8080, targetPort: 8000 }] },
      'permitted',
    ],
    ['that nobody lists', { ports: [] }, { clusterIP: 'None', ports: [] }, 'permitted'],
    ['that nobody lists', { ports: [], isHeadless: true }, {}, 'forbidden'],
    ['that only the pods know', { ports: [{ name: 'metrics', port: 9 }] }, { clusterIP: 'None' }, 'permitted'],
    [
      'under another name than in the slices',
      { ports: [{ name: 'web', port: 8080 }] },
      { clusterIP: 'None' },
      'permitted',
    ],
    ['that only the pods know', { ports: [{ name: 'metrics', port: 9 }], isHeadless: true }, {}, 'forbidden'],
    [
      'among several',
      {
        ports: [
          { name: 'a', port: 1 },
          { name: 'b', port: 2 },
        ],
        isHeadless: true,
      },
      {},
      'forbidden',
    ],
  ])(
    "a number of a headless Service %s is the pods' port (%o, %o, reading the Service is %s)",
    async (_what, shape, spec, access) => {
      const choosing = new Choosing(8080);
      choosing.answer = access === 'forbidden' ? denied : async () => service([{ ...http, port: 8080 }], spec);
      choosing.look(shape);
      await settle();
      expect(choosing.look(shape)).toMatchObject({ name: '', podPort: 8080 });
      expect(choosing.error).toBeUndefined();
    },
  );

  const pods = { ports: [], members: someSlice.members };
  const udp = { name: 'dns', port: 53, protocol: 'UDP' };

  it.each<[string, number | string, readonly object[], string, string | undefined]>([
    ['a number of', 53, [udp], 'Service shop/orders has no TCP port 53; it has dns 53 (UDP)', undefined],
    ['a name of', 'dns', [udp], 'Service shop/orders has no TCP port named "dns"; it has dns 53 (UDP)', 'dns'],
    [
      'a targetPort that no pod has:',
      80,
      [{ ...http, targetPort: 'htpp' }],
      'port 80 of shop/orders is named "http", and no EndpointSlice has a port of that name; there is none',
      'http',
    ],
  ])(
    "%s a Service with an address, whose slices show no TCP port, is not the pods' port (%s)",
    async (_what, port, ports, message, name) => {
      const choosing = new Choosing(port);
      choosing.answer = async () => service(ports, { clusterIP: '10.96.0.7' });
      expect(choosing.look(pods)).toMatchObject({ name: undefined, isOpen: true });
      await settle();
      const choice = choosing.look(pods);
      expect([choice.name, choice.podPort, choosing.error?.message]).toEqual([name, undefined, message]);
      expect(choosing.lookups).toBe(1);
    },
  );

  it('a number, slices without a port or the label of a headless Service, and a Service that may not be read: no guess', async () => {
    const choosing = new Choosing(8080);
    choosing.answer = denied;
    choosing.look(pods);
    await settle();
    const choice = choosing.look(pods);
    expect([choice.name, choice.podPort]).toEqual([undefined, undefined]);
    expect(choosing.error).toMatchObject({ code: 'EVENKEEL_RESOLVE', permanent: true });
    expect(choosing.error?.message).toBe('the port table of the Service shop/orders cannot be read: 403 Forbidden');
  });

  it('a number whose port leaves all pods stays what it was, and has no endpoints', async () => {
    const choosing = new Choosing(80);
    choosing.answer = denied;
    choosing.among('http');
    await settle();
    expect(choosing.among('http')).toBe('http');
    expect(choosing.look(pods)).toMatchObject({ name: 'http' });
    expect(choosing.look(pods).podPort).toBeUndefined();
  });

  it("a number that is not the Service's own, where it has an address of its own: refused", async () => {
    const choosing = new Choosing(8000);
    choosing.answer = async () => service([http], { clusterIP: '10.96.0.7' });
    choosing.among('http');
    await settle();
    expect(choosing.among('http')).toBeUndefined();
    expect(choosing.error?.message).toBe('Service shop/orders has no port 8000; it has http 80');
  });

  it('a number whose name no slice has: an error that says which name was looked for, until one has', async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => service([http], { clusterIP: '10.96.0.7' });
    choosing.among('web');
    await settle();
    expect(choosing.among('web')).toBe('http');
    expect(choosing.error?.message).toBe(
      'port 80 of shop/orders is named "http", and no EndpointSlice has a port of that name; there is "web"',
    );
    expect(choosing.among('http', 'web')).toBe('http');
    expect(choosing.error).toBeUndefined();
  });

  it('a number, one port name, permission for slices only: that port, whatever its number', async () => {
    for (const kind of ['forbidden', 'missing'] as const) {
      const choosing = new Choosing(80);
      choosing.answer = async () => {
        throw new ApiFailure(kind, 'status', kind);
      };
      choosing.among('http');
      await settle();
      expect(choosing.among('http')).toBe('http');
      choosing.clock.advance(600_000);
      expect([choosing.lookups, choosing.errors]).toEqual([1, 0]);
    }
  });

  it('a number, one port name, a Service that does not answer: waited for no longer than a second', async () => {
    const choosing = new Choosing(80);
    choosing.answer = () => new Promise(() => {});
    expect(choosing.among('http')).toBeUndefined();
    choosing.clock.advance(999);
    expect(choosing.among('http')).toBeUndefined();
    choosing.clock.advance(1);
    expect(choosing.changes).toBe(1);
    expect(choosing.among('http')).toBe('http');
    choosing.service.close();
    expect(choosing.clock.timers).toBe(0);
  });

  it('a name no slice has: an error with the existing names, unless the Service has it or slices had it before', async () => {
    const misspelt = new Choosing('htttp');
    misspelt.answer = async () => table;
    expect(misspelt.among('http', 'metrics')).toBeUndefined();
    await settle();
    expect(misspelt.among('http', 'metrics')).toBe('htttp');
    expect(misspelt.error?.permanent).toBe(false);
    expect(misspelt.error?.message).toBe('Service shop/orders has no port named "htttp"; it has http 80, metrics 9090');
    const blind = new Choosing('htttp');
    blind.answer = denied;
    blind.among('http');
    await settle();
    expect(blind.among('http')).toBe('htttp');
    expect(blind.error?.message).toBe('no EndpointSlice of shop/orders has a port named "htttp"; there is "http"');
    expect(blind.among('htttp')).toBe('htttp');
    expect(blind.error).toBeUndefined();
    expect(blind.among('http')).toBe('htttp');
    const unserved = new Choosing('metrics');
    unserved.answer = async () => table;
    unserved.among('http');
    await settle();
    expect(unserved.among('http')).toBe('metrics');
    expect(unserved.error).toBeUndefined();
    expect(unserved.look({ ports: [{ name: 'http', port: 8080 }], members: [] }).emptyBecause).toBe(
      'no EndpointSlice of shop/orders has a port named "metrics"; there is "http". The Service has the port: is its targetPort a port of the pods?',
    );
    const gone = new Choosing('http');
    expect(gone.look({ ports: [{ name: 'http', port: 8080 }], members: [] }).emptyBecause).toBeUndefined();
    expect(gone.look({ ports: [{ name: 'web', port: 8080 }], members: [] })).toMatchObject({
      name: 'http',
      emptyBecause: 'no EndpointSlice of shop/orders has a port named "http"; there is "web"',
    });
  });

  it('a number, several names: looked up in the Service, once', async () => {
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

  it('changed names: looked up again, the old answer is used meanwhile', async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => table;
    choosing.among('http', 'metrics');
    await settle();
    choosing.answer = async () => service([{ name: 'web', port: 80 }]);
    expect(choosing.among('http', 'metrics', 'web')).toBe('http');
    await settle();
    expect(choosing.among('http', 'metrics', 'web')).toBe('web');
    expect(choosing.lookups).toBe(2);
  });

  it('a Service that may not be read: a coded error that lists the names, and another try after half a minute', async () => {
    const choosing = new Choosing(80);
    choosing.answer = denied;
    choosing.among('http', 'metrics');
    await settle();
    choosing.among('http', 'metrics');
    expect(choosing.error).toMatchObject({ code: 'EVENKEEL_PORT_AMBIGUOUS', permanent: true });
    expect(choosing.error?.message).toContain('"http", "metrics"');
    expect(choosing.error?.message).toContain('get on services');
    choosing.among('http', 'metrics');
    expect(choosing.lookups).toBe(1);
    choosing.answer = async () => table;
    choosing.clock.advance(60_000);
    await settle();
    expect(choosing.among('http', 'metrics')).toBe('http');
    expect(choosing.error).toBeUndefined();
    expect(choosing.errors).toBe(2);
  });

  it('a Service without the number: an error with the ports it has, never a guess', async () => {
    const choosing = new Choosing(8000);
    choosing.answer = async () => table;
    // 8000 is the pods' number of "http": equal numbers mean nothing.
    expect(choosing.among('http', 'metrics')).toBeUndefined();
    await settle();
    expect(choosing.among('http', 'metrics')).toBeUndefined();
    expect(choosing.error?.message).toBe('Service shop/orders has no port 8000; it has http 80, metrics 9090');
  });

  it('a Service that cannot be read at the moment: reported, and tried again soon', async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => {
      throw new Error('ECONNREFUSED');
    };
    choosing.among('http', 'metrics');
    await settle();
    choosing.among('http', 'metrics');
    expect(choosing.error).toMatchObject({ code: 'EVENKEEL_RESOLVE', permanent: false });
    choosing.answer = async () => table;
    choosing.clock.advance(1_600);
    await settle();
    expect(choosing.among('http', 'metrics')).toBe('http');
  });

  it('no port at all: several names are a coded error without a lookup; one name is used', () => {
    const choosing = new Choosing(undefined);
    expect(choosing.among('http')).toBe('http');
    expect(choosing.among('http', 'metrics')).toBeUndefined();
    expect(choosing.error).toMatchObject({ code: 'EVENKEEL_PORT_AMBIGUOUS' });
    expect(choosing.lookups).toBe(0);
    expect(choosing.among('http')).toBe('http');
    expect(choosing.error).toBeUndefined();
  });

  it('close: stops a lookup and its retry', async () => {
    const choosing = new Choosing(80);
    choosing.answer = async () => {
      throw new Error('no');
    };
    choosing.among('http', 'metrics');
    await settle();
    choosing.service.close();
    expect(choosing.clock.timers).toBe(0);
  });
});
