import { afterEach, describe, expect, it, vi } from 'vitest';
import { diagnose } from '../../../src/cli/findings.js';
import { type ApiFacts, type DnsFacts, type Facts, noToken, type UseFacts } from '../../../src/cli/report.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { parseTarget } from '../../../src/resolver/target-grammar.js';

const allowed = { state: 'allowed' } as const;
const forbidden = { state: 'forbidden', message: 'User "system:serviceaccount:web:frontend" cannot' } as const;
const api: ApiFacts = {
  server: 'https://10.96.0.1:443',
  namespace: 'shop',
  service: 'orders',
  list: allowed,
  watch: allowed,
  getService: allowed,
  slices: { count: 1, ports: ['http'], families: ['IPv4'], ready: 1, terminating: 0, notReady: 0, hints: [] },
  object: {
    type: 'ClusterIP',
    headless: false,
    clusterIP: '10.96.0.7',
    externalName: undefined,
    hasSelector: true,
    ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
    internalTrafficPolicy: 'Cluster',
    sessionAffinity: 'None',
    trafficDistribution: undefined,
  },
};
const answer = { records: 1, ttl: 5, tookMs: 1 };
const dns: DnsFacts = {
  name: 'orders.shop.svc.cluster.local.',
  servers: ['10.96.0.10'],
  a: answer,
  aaaa: { records: 0, ttl: undefined, error: 'ENODATA', tookMs: 1 },
  srv: { ...answer, name: 'orders.shop.svc.cluster.local.' },
  kind: 'cluster-ip',
};
const use: UseFacts = {
  mode: 'slices',
  reason: 'its EndpointSlices are watched',
  advice: undefined,
  endpoints: [createEndpoint({ address: '10.0.0.1', port: 8080 })],
  errors: [],
  warnings: [],
};
const judge = (target: string, facts: Partial<Facts>): ReturnType<typeof diagnose> =>
  diagnose(parseTarget(target), { api, dns, use, hostFamilies: ['IPv4'], connections: [], ...facts });

describe("the Service's rules", () => {
  const object = api.object as NonNullable<ApiFacts['object']>;
  const rulesOf = (rules: Partial<typeof object>, place: { NODE_NAME?: string; TOPOLOGY_ZONE?: string } = {}) => {
    vi.stubEnv('NODE_NAME', place.NODE_NAME);
    vi.stubEnv('TOPOLOGY_ZONE', place.TOPOLOGY_ZONE);
    const { api: lines } = judge('orders.shop:80', { api: { ...api, object: { ...object, ...rules } } });
    return lines.filter(({ text }) => /^(internalTrafficPolicy|sessionAffinity|trafficDistribution)/.test(text));
  };
  afterEach(() => vi.unstubAllEnvs());

  it('that say nothing are not mentioned', () => {
    expect(rulesOf({})).toEqual([]);
    expect(rulesOf({ headless: true, internalTrafficPolicy: 'Local', sessionAffinity: 'ClientIP' })).toEqual([]);
  });

  it.each([
    [
      { internalTrafficPolicy: 'Local' },
      { NODE_NAME: 'node-7' },
      { mark: 'note', text: 'internalTrafficPolicy: Local: only pods of the node node-7 are used' },
    ],
    [
      { internalTrafficPolicy: 'Local' },
      { TOPOLOGY_ZONE: 'a' },
      { mark: 'warn', text: 'internalTrafficPolicy: Local: NODE_NAME is not set here, so kube-proxy chooses the pod' },
    ],
    [
      { sessionAffinity: 'ClientIP' },
      {},
      { mark: 'note', text: 'sessionAffinity: ClientIP: this host stays with one pod while that is usable' },
    ],
    [
      { trafficDistribution: 'PreferSameZone' },
      { TOPOLOGY_ZONE: 'a' },
      { mark: 'note', text: 'trafficDistribution: PreferSameZone: hints are followed' },
    ],
    [
      { trafficDistribution: 'PreferSameNode' },
      { NODE_NAME: 'node-7' },
      { mark: 'note', text: 'trafficDistribution: PreferSameNode: hints are followed' },
    ],
    [
      { trafficDistribution: 'PreferSameZone' },
      {},
      {
        mark: 'note',
        text: 'trafficDistribution: PreferSameZone: not followed: TOPOLOGY_ZONE and NODE_NAME are not set here',
      },
    ],
  ])('%o with %o: says what is followed', (rules, place, line) => {
    expect(rulesOf(rules, place)).toEqual([line]);
  });

  it('without "get services": says that they are unknown', () => {
    const { api: lines } = judge('orders.shop:80', { api: { ...api, getService: forbidden } });
    const text = "get services: not allowed; a port number's meaning and the Service's rules are unknown";
    expect(lines).toContainEqual({ mark: 'note', text });
  });
});

describe('diagnose', () => {
  it.each([
    [
      'slices',
      ['IPv4', 'IPv6'],
      ['IPv4', 'IPv6'],
      'a pod is one endpoint with two addresses, and IPv4 is tried first: this host has both',
    ],
    [
      'slices',
      ['IPv4', 'IPv6'],
      [],
      'a pod is one endpoint with two addresses, and IPv4 is tried first: this host has only loopback',
    ],
    ['slices', ['IPv4', 'IPv6'], ['IPv6'], 'of both IP families IPv6 is used: this host has no other'],
    ['dns', ['IPv4', 'IPv6'], ['IPv6'], 'of both IP families IPv6 is used: this host has no other'],
    ['dns', ['IPv4', 'IPv6'], ['IPv4', 'IPv6'], 'of both IP families IPv4 is used: this host has both'],
    ['slices', ['IPv4'], ['IPv6'], 'all addresses are IPv4, and this host has IPv6 alone'],
    ['slices', ['IPv4'], ['IPv4', 'IPv6'], undefined],
    ['slices', ['IPv6'], ['IPv6'], undefined],
  ] as const)('says which addresses are dialed, and why: %s, %j, host %j', (mode, families, hostFamilies, expected) => {
    const aaaa = families.includes('IPv6' as never) ? answer : dns.aaaa;
    const facts = {
      api: { ...api, slices: { ...(api.slices as NonNullable<ApiFacts['slices']>), families } },
      dns: { ...dns, aaaa },
    };
    const { use: lines } = judge('orders.shop:80', { ...facts, hostFamilies, use: { ...use, mode } });
    expect(lines.map(({ text }) => text).filter((text) => / IP families | host /.test(text))).toEqual(
      expected === undefined ? [] : [expected],
    );
  });

  it('shows both addresses of a pod', () => {
    const endpoints = [createEndpoint({ address: '10.0.0.1', otherAddress: 'fd00::1', port: 8080, name: 'orders-0' })];
    expect(judge('orders.shop:80', { use: { ...use, endpoints } }).use.at(-1)?.text).toBe(
      '10.0.0.1:8080  orders-0, also [fd00::1]:8080, ready',
    );
  });

  it('pods that speak HTTP/2: says what fetch does without evenkeel', () => {
    const lineWith = (isOffered: boolean): object => {
      const http2 = { endpoint: '10.0.0.1:8443', node: '26.10.0', isOffered };
      return judge('orders.shop:http', { http2 });
    };
    expect(lineWith(true)).toMatchObject({
      outcome: 'fine',
      connections: [
        {
          mark: 'note',
          text: '10.0.0.1:8443 speaks HTTP/2, and so does fetch of this Node (26.10.0): without evenkeel it stays with one pod',
        },
      ],
    });
    expect(lineWith(false)).toMatchObject({
      connections: [{ text: expect.stringContaining('and from Node 26 on so does fetch: without evenkeel') }],
    });
    expect(judge('orders.shop:http', {}).connections).toEqual([]);
  });

  it('names a client that register does not balance in one line, with the code to write for it', () => {
    const url = 'http://127.0.0.1:9901/';
    const unbalanced = [{ what: 'OwnAgent of node:http', count: 1, remedy: 'createAgent of evenkeel/node-http' }];
    const found = judge('orders.shop:http', { process: { url, unbalanced } });
    expect(found).toMatchObject({
      outcome: 'degraded',
      summary: '1 client of the app is not balanced',
      process: [{ mark: 'warn', text: 'not balanced: OwnAgent of node:http, 1 time' }],
      todo: ['To balance OwnAgent of node:http: createAgent of evenkeel/node-http'],
    });
    expect(judge('orders.shop:http', { process: { url, unbalanced: [] } })).toMatchObject({
      outcome: 'fine',
      todo: [],
    });
    expect(judge('orders.shop:http', { process: { url } }).process[0]?.text).toMatch(/register is not in use/);
    expect(judge('orders.shop:http', { process: { url, error: 'gone' } }).process[0]?.mark).toBe('warn');
  });

  it('a number that could be one of several ports, without "get services": names the ports', () => {
    const several = { ...api.slices, ports: ['http', 'metrics'] } as NonNullable<ApiFacts['slices']>;
    const { todo, outcome } = judge('orders.shop:80', {
      api: { ...api, getService: forbidden, slices: several },
      use: { ...use, mode: 'name' },
    });
    expect(outcome).toBe('degraded');
    expect(todo[0]).toContain('Name the port ("http", "metrics") in place of 80');
  });

  it('a number that could not be checked, without "get services": says so', () => {
    const minimal = { ...api, getService: forbidden, object: undefined } as unknown as ApiFacts;
    for (const [target, facts, isUnchecked] of [
      ['orders.shop:80', minimal, true],
      ['kubernetes:orders.shop:80', minimal, true],
      ['orders.shop:http', minimal, false],
      ['orders.shop:80', api, false],
    ] as const) {
      const { outcome, summary } = judge(target, { api: facts });
      expect([target, outcome, summary.includes('cannot be checked without "get services"')]).toEqual([
        target,
        'fine',
        isUnchecked,
      ]);
    }
  });

  it('a selector that matches no pod is not searched for in pods', () => {
    const none = { ...api.slices, ready: 0 } as NonNullable<ApiFacts['slices']>;
    const facts = { api: { ...api, slices: none }, use: { ...use, endpoints: [] } };
    expect(judge('orders.shop:80', facts).todo).toEqual([
      expect.stringContaining('kubectl get service orders -n shop -o wide; kubectl get pods -n shop --show-labels'),
    ]);
    const unready = { ...facts, api: { ...api, slices: { ...none, notReady: 2 } } };
    expect(judge('orders.shop:80', unready).todo).toEqual([expect.stringContaining('kubectl describe pods -n shop')]);
  });

  it('terminating pods that still serve count when no pod is ready', () => {
    const conditions = { ready: false, serving: true, terminating: true };
    const endpoints = [createEndpoint({ address: '10.0.0.1', port: 8080, conditions })];
    expect(judge('orders.shop:80', { use: { ...use, endpoints } }).outcome).toBe('fine');
  });

  it('no answer in time: unusable, with the last reason', () => {
    const none = { ...use, endpoints: undefined, mode: undefined };
    expect(judge('orders.shop:80', { use: none }).summary).toBe('nothing answered in time');
    expect(judge('orders.shop:80', { use: { ...none, errors: ['one', 'two'] } }).summary).toBe('two');
  });

  it('many endpoints are listed up to a limit', () => {
    const endpoints = Array.from({ length: 25 }, (_, index) =>
      createEndpoint({ address: `10.0.0.${index}`, port: 80 }),
    );
    const lines = judge('orders.shop:80', { use: { ...use, endpoints } }).use;
    expect(lines.at(-1)?.text).toBe('and 5 more');
  });

  it('a failure of one way is a warning while there is another, and a failure if there is none', () => {
    const broken = { ...api, list: forbidden, watch: forbidden };
    expect(judge('orders.shop:80', { api: broken }).api.some(({ mark }) => mark === 'fail')).toBe(false);
    expect(judge('kubernetes:orders.shop:80', { api: broken }).api.some(({ mark }) => mark === 'fail')).toBe(true);
  });

  it('shows warnings of the library', () => {
    const { use: lines } = judge('orders.shop:80', { use: { ...use, warnings: ['refused'] } });
    expect(lines).toContainEqual({ mark: 'warn', text: 'refused' });
  });

  it('a name server that does not answer is not mentioned with EndpointSlices', () => {
    const silent = {
      ...dns,
      a: { records: 0, ttl: undefined, error: 'ETIMEOUT', tookMs: 5_000 },
      kind: 'none',
    } as const;
    const { outcome, todo } = judge('orders.shop:80', { dns: silent });
    expect([outcome, todo]).toEqual(['fine', []]);
  });
});

describe('a targetPort name that no pod has', () => {
  const object = api.object as NonNullable<ApiFacts['object']>;
  const slices = { ...(api.slices as NonNullable<ApiFacts['slices']>), ports: [] as string[] };
  const named = { ...object, ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 'web' }] };
  const none = { ...use, endpoints: [] };
  const advice =
    /^Give a port of the pods' containers the name "web", or make targetPort a number: kubectl edit service/;

  it.each(['orders.shop:http', 'orders.shop:80', 'kubernetes:orders.shop:80'])(
    '%s: says which name is missing',
    (to) => {
      const { outcome, todo, api: lines } = judge(to, { api: { ...api, object: named, slices }, use: none });
      expect([outcome, todo]).toEqual(['unusable', [expect.stringMatching(advice)]]);
      expect(lines.at(-1)).toEqual({
        mark: 'fail',
        text: expect.stringMatching(/^no pod has a port named "web", which is the targetPort of port (80|"http")$/),
      });
    },
  );

  it('is not confused with a port that the Service does not have', () => {
    const both = { ...slices, ports: ['metrics'] };
    const { todo } = judge('orders.shop:http', { api: { ...api, object: named, slices: both }, use: none });
    expect(todo).toEqual([expect.stringMatching(advice)]);
    const other = judge('orders.shop:htttp', { api: { ...api, object: named, slices: both }, use: none });
    expect(other.todo).toEqual(['Use a port the Service has: "metrics"']);
  });

  it('without "get services": says where to look', () => {
    const { object: _, ...unread } = { ...api, getService: forbidden, slices };
    const { todo } = judge('orders.shop:80', { api: unread, use: { ...use, mode: 'name' } });
    expect(todo[0]).toBe(
      "Give a port of the pods' containers that name, or make targetPort a number: kubectl edit service orders -n shop",
    );
    // A headless Service without ports: its number is the pods' own.
    expect(judge('orders.shop:80', { api: unread })).toMatchObject({ outcome: 'fine', todo: [] });
  });

  it('says nothing when the pods are found', () => {
    expect(judge('orders.shop:80', { api: { ...api, object: named } })).toMatchObject({ outcome: 'fine', todo: [] });
  });
});

describe('an https URL', () => {
  const plain = { endpoint: '10.0.0.1:8080', tookMs: 1, tls: { refusal: 'it answers in another protocol' } };
  const todo = ['Use an http URL, or the port on which the pods speak TLS.'];

  it('whose pods do not speak TLS: unusable', () => {
    expect(judge('orders.shop:http', { connections: [plain] })).toMatchObject({
      outcome: 'unusable',
      summary: 'the target is an https URL, but no endpoint speaks TLS',
      connections: [
        { mark: 'ok', text: '10.0.0.1:8080 accepts connections (1 ms)' },
        { mark: 'fail', text: '10.0.0.1:8080 does not speak TLS: it answers in another protocol' },
      ],
      todo,
    });
  });

  it('of whose pods some do not: degraded', () => {
    const other = { endpoint: '10.0.0.2:8080', tookMs: 1, tls: {} };
    expect(judge('orders.shop:http', { connections: [plain, other] })).toMatchObject({
      outcome: 'degraded',
      summary: '1 of 2 endpoints do not speak TLS',
      todo,
    });
    expect(judge('orders.shop:http', { connections: [other] })).toMatchObject({ outcome: 'fine', todo: [] });
  });
});

describe('a cluster IP in place of its Service', () => {
  it('is degraded, with the name to use', () => {
    const clusterIPs = [{ address: '10.96.0.7', service: 'orders.shop' }];
    const found = { clusterIPs, api: undefined, dns: undefined, use: { ...use, mode: undefined } };
    expect(judge('10.96.0.7:80', found)).toMatchObject({
      outcome: 'degraded',
      summary: '10.96.0.7 is the cluster IP of orders.shop, where kube-proxy picks a pod once per connection',
      todo: ["Use the Service's own name: orders.shop:80"],
    });
  });
});

describe('a pod without the token of its service account', () => {
  it('is not told to run in a pod', () => {
    const notAsked = { state: 'not-asked' } as const;
    const { slices: _, object: __, ...rest } = api;
    const asked = { ...rest, server: undefined, list: notAsked, watch: notAsked, getService: notAsked };
    const [first] = judge('orders.shop:80', { api: { ...asked, reason: noToken }, use: { ...use, mode: 'dns' } }).todo;
    expect(first).toMatch(/^Let this pod have the token of its service account \(automountServiceAccountToken: true\)/);
  });
});

describe('an ExternalName Service that works', () => {
  it('does not hide clients that are not balanced', () => {
    const alias = 'db.example.com';
    const object = { ...api.object, type: 'ExternalName', externalName: alias } as NonNullable<ApiFacts['object']>;
    const unbalanced = [{ what: 'OwnAgent of node:http', count: 1, remedy: 'createAgent of evenkeel/node-http' }];
    const facts = { api: { ...api, object }, use: { ...use, mode: 'dns' } };
    expect(judge('db.shop:80', facts).summary).toBe('1 endpoint, found by asking DNS for db.example.com');
    expect(judge('db.shop:80', { ...facts, process: { url: 'http://127.0.0.1/', unbalanced } }).outcome).toBe(
      'degraded',
    );
  });
});

describe('an API server that does not list EndpointSlices', () => {
  const todoFor = (list: ApiFacts['list']): readonly string[] => {
    const { slices: _, object: __, ...rest } = api;
    const notAsked = { state: 'not-asked' } as const;
    return judge('kubernetes:orders.shop:http', {
      api: { ...rest, list, watch: notAsked, getService: notAsked },
      dns: undefined,
      use: { ...use, mode: undefined, endpoints: undefined, errors: ['it failed'] },
    }).todo;
  };

  it.each([
    [{ message: 'Unauthorized', isUnauthorized: true }, 'Check the token: '],
    [{ message: 'unable to verify the first certificate' }, 'Check the certificate authority: '],
    [{ message: 'self-signed certificate in certificate chain' }, 'Check the certificate authority: '],
    [{ message: 'connect ECONNREFUSED 10.96.0.1:443' }, 'Find out why https://10.96.0.1:443 cannot be reached'],
  ])('%o: what to do names the cause', (why, advice) => {
    const [first] = todoFor({ state: 'failed', ...why });
    expect(first?.startsWith(advice)).toBe(true);
  });
});
