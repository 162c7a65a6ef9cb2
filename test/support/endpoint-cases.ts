import type { EndpointSliceObject, SliceEndpoint, SlicePort } from '../../src/testing/servers/api-server-objects.js';

/**
 * Slices and the set a client must make from them, as data: one entry per case of the specification.
 * Members are written as an address and a state: R ready, N not ready, X not ready, not serving, terminating,
 * T serving and terminating, not ready; `-` no conditions at all.
 */
export interface EndpointCase {
  readonly id: number;
  readonly title: string;
  /** The port the pool is for. Default "http". */
  readonly port?: string;
  readonly family?: 'IPv4' | 'IPv6';
  /** Topology hints are on if either is given. */
  readonly zone?: string;
  readonly node?: string;
  readonly steps: readonly CaseStep[];
}

export interface CaseStep {
  /** Slices written in this step, in order; null deletes one. */
  readonly slices: Readonly<Record<string, SliceSpec | null>>;
  /** Time that passes afterwards, in ms. */
  readonly thenMs?: number;
  /** The usable set afterwards: addresses, with `:port` where it is not 80; '' is the empty set. */
  readonly expect: string;
  /** Connections opened since the start of the case. */
  readonly opened?: number;
  /** Addresses that are draining. */
  readonly draining?: string;
  /** Whether the resolver published anything in this step. */
  readonly published?: boolean;
}

export type SliceSpec =
  | string
  | {
      readonly endpoints: string | readonly SliceEndpoint[] | null;
      readonly ports?: readonly SlicePort[] | null;
      readonly addressType?: string;
      readonly service?: string;
    };

export const addresses: Readonly<Record<string, string>> = {
  a: '10.0.0.1',
  b: '10.0.0.2',
  c: '10.0.0.3',
  a6: 'fd00::a',
};

const conditions: Readonly<Record<string, SliceEndpoint['conditions']>> = {
  R: { ready: true, serving: true, terminating: false },
  N: { ready: false, serving: false, terminating: false },
  X: { ready: false, serving: false, terminating: true },
  T: { ready: false, serving: true, terminating: true },
};

/** A member, such as `member('aR', { uid: 'u1', zones: ['z1'] })`. */
export function member(
  text: string,
  more: { readonly uid?: string; readonly zones?: readonly string[]; readonly nodes?: readonly string[] } = {},
): SliceEndpoint {
  const name = text.slice(0, -1);
  const state = text.slice(-1);
  const { uid, zones, nodes } = more;
  const hints = {
    ...(zones === undefined ? {} : { forZones: zones.map((zone) => ({ name: zone })) }),
    ...(nodes === undefined ? {} : { forNodes: nodes.map((node) => ({ name: node })) }),
  };
  return {
    addresses: [addresses[name] as string],
    ...(conditions[state] === undefined ? {} : { conditions: conditions[state] }),
    ...(uid === undefined ? {} : { targetRef: { kind: 'Pod', uid } }),
    ...(Object.keys(hints).length === 0 ? {} : { hints }),
  };
}

/** The object to write for a slice of a case. */
export function sliceObject(name: string, spec: SliceSpec, service = 'orders'): EndpointSliceObject {
  const full = typeof spec === 'string' ? { endpoints: spec } : spec;
  const { endpoints } = full;
  return {
    metadata: { name, namespace: 'shop', labels: { 'kubernetes.io/service-name': full.service ?? service } },
    addressType: full.addressType ?? 'IPv4',
    endpoints:
      typeof endpoints === 'string'
        ? endpoints
            .split(' ')
            .filter(Boolean)
            .map((text) => member(text))
        : endpoints,
    ports: full.ports === undefined ? [{ name: 'http', port: 80, protocol: 'TCP' }] : full.ports,
  };
}

const http8080: readonly SlicePort[] = [{ name: 'http', port: 8080, protocol: 'TCP' }];

/** A case with a single step. */
function look(
  id: number,
  title: string,
  slices: Readonly<Record<string, SliceSpec>>,
  expect: string,
  more: Omit<EndpointCase, 'id' | 'title' | 'steps'> = {},
): EndpointCase {
  return { id, title, ...more, steps: [{ slices, expect }] };
}

/** One slice of members with hints. */
const hinted = (...endpoints: readonly SliceEndpoint[]): Readonly<Record<string, SliceSpec>> => ({ s1: { endpoints } });

const threeNodes = hinted(
  member('aR', { nodes: ['n1'], zones: ['z1'] }),
  member('bR', { nodes: ['n2'], zones: ['z1'] }),
  member('cR', { nodes: ['n3'], zones: ['z2'] }),
);

export const endpointCases: readonly EndpointCase[] = [
  look(1, 'two ready', { s1: 'aR bR' }, 'a b'),
  look(2, 'one not ready', { s1: 'aR bN' }, 'a'),
  look(3, 'one terminating', { s1: 'aR bT' }, 'a'),
  look(4, 'all terminating and serving', { s1: 'aT bT' }, 'a b'),
  look(5, 'terminating, not ready, gone', { s1: 'aT bN cX' }, 'a'),
  look(6, 'none usable', { s1: 'aN bX' }, ''),
  look(7, 'the fallback counts over all slices', { s1: 'aT', s2: 'bR' }, 'b'),
  look(8, 'without conditions', { s1: 'a-' }, 'a'),
  look(
    9,
    'ready missing, terminating true',
    { s1: { endpoints: [{ addresses: ['10.0.0.1'], conditions: { terminating: true } }] } },
    'a',
  ),
  look(
    10,
    'ready and terminating (publishNotReadyAddresses)',
    { s1: { endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: true, terminating: true } }] } },
    'a',
  ),
  look(11, 'the same address in two slices', { s1: 'aR', s2: 'aR' }, 'a'),
  {
    id: 12,
    title: 'an address passes from a dying pod to a new one',
    steps: [
      { slices: { s1: { endpoints: [member('aR', { uid: 'uid1' })] } }, expect: 'a#uid1', opened: 1 },
      {
        slices: {
          s1: { endpoints: [member('aT', { uid: 'uid1' })] },
          s2: { endpoints: [member('aR', { uid: 'uid2' })] },
        },
        expect: 'a#uid2',
        opened: 2,
      },
    ],
  },
  {
    id: 13,
    title: 'the same address with another uid is another pod',
    steps: [
      { slices: { s1: { endpoints: [member('aR', { uid: 'uid1' })] } }, expect: 'a#uid1', opened: 1 },
      { slices: { s1: { endpoints: [member('aR', { uid: 'uid2' })] } }, expect: 'a#uid2', opened: 2 },
    ],
  },
  look(14, 'moving, not ready in the old slice', { s1: 'aN', s2: 'aR' }, 'a'),
  {
    id: 15,
    title: 'moves to another slice, seen twice for a moment',
    steps: [
      { slices: { s1: 'aR bR' }, expect: 'a b', opened: 2 },
      { slices: { s2: 'aR' }, expect: 'a b', opened: 2, published: false },
      { slices: { s1: 'bR' }, expect: 'a b', opened: 2, published: false },
    ],
  },
  {
    id: 16,
    title: 'moves to another slice, seen nowhere for 20 ms',
    steps: [
      { slices: { s1: 'aR bR', s2: 'cR' }, expect: 'a b c', opened: 3 },
      { slices: { s1: 'bR' }, thenMs: 20, expect: 'a b c', opened: 3, published: false },
      { slices: { s2: 'cR aR' }, thenMs: 1_000, expect: 'a b c', opened: 3, published: false },
    ],
  },
  {
    id: 17,
    title: 'moves to another slice, seen nowhere for 2 s: revived, not reconnected (T2)',
    steps: [
      { slices: { s1: 'aR bR', s2: 'cR' }, expect: 'a b c', opened: 3 },
      { slices: { s1: 'bR' }, thenMs: 2_000, expect: 'b c', opened: 3, draining: 'a' },
      { slices: { s2: 'cR aR' }, thenMs: 50, expect: 'a b c', opened: 3, draining: '' },
    ],
  },
  {
    id: 18,
    title: 'one of two slices deleted',
    steps: [
      { slices: { s1: 'aR', s2: 'bR' }, expect: 'a b' },
      { slices: { s1: null }, thenMs: 250, expect: 'b' },
    ],
  },
  {
    id: 19,
    title: 'the only slice deleted',
    steps: [
      { slices: { s1: 'aR' }, expect: 'a' },
      { slices: { s1: null }, thenMs: 250, expect: '' },
    ],
  },
  look(20, 'the placeholder of an empty Service', { s1: { endpoints: [], ports: [] } }, ''),
  look(
    21,
    'other port numbers in another slice',
    { s1: 'aR', s2: { endpoints: 'aR bR', ports: http8080 } },
    'a a:8080 b:8080',
  ),
  look(
    22,
    'two ports, a pool for one',
    {
      s1: {
        endpoints: 'aR',
        ports: [
          { name: 'http', port: 80 },
          { name: 'metrics', port: 9090 },
        ],
      },
    },
    'a',
  ),
  look(23, 'port number missing', { s1: { endpoints: 'aR', ports: [{ name: 'http' }] } }, ''),
  look(24, 'port name missing, a pool for ""', { s1: { endpoints: 'aR', ports: [{ port: 80 }] } }, 'a', { port: '' }),
  look(25, 'no address', { s1: { endpoints: [{ addresses: [], conditions: { ready: true } }, member('bR')] } }, 'b'),
  look(
    26,
    'two addresses',
    { s1: { endpoints: [{ addresses: ['10.0.0.1', '10.0.0.2'], conditions: { ready: true } }] } },
    'a',
  ),
  look(27, 'both families, an IPv4 pool', { s1: 'aR', s2: { endpoints: 'a6R', addressType: 'IPv6' } }, 'a', {
    family: 'IPv4',
  }),
  look(
    28,
    'FQDN only',
    { s1: { endpoints: [{ addresses: ['orders.example.com'], conditions: { ready: true } }], addressType: 'FQDN' } },
    '',
  ),
  look(29, "another Service's slice", { s1: 'aR', s2: { endpoints: 'bR', service: 'carts' } }, 'a'),
  {
    id: 30,
    title: 'reordered, or the same again under a new version',
    steps: [
      { slices: { s1: 'aR bR' }, expect: 'a b', opened: 2 },
      { slices: { s1: 'bR aR' }, thenMs: 1_000, expect: 'a b', opened: 2, published: false },
      { slices: { s1: 'bR aR' }, thenMs: 1_000, expect: 'a b', opened: 2, published: false },
    ],
  },
  look(31, 'zone z1', hinted(member('aR', { zones: ['z1'] }), member('bR', { zones: ['z2'] })), 'a', { zone: 'z1' }),
  look(32, 'one ready endpoint without a hint', hinted(member('aR', { zones: ['z1'] }), member('bR')), 'a b', {
    zone: 'z1',
  }),
  look(33, 'no hint for our zone', hinted(member('aR', { zones: ['z1'] }), member('bR', { zones: ['z2'] })), 'a b', {
    zone: 'z3',
  }),
  look(
    34,
    'the hinted one is not ready',
    hinted(member('aN', { zones: ['z1'] }), member('bR', { zones: ['z2'] })),
    'b',
    {
      zone: 'z1',
    },
  ),
  look(35, 'only ready endpoints decide', hinted(member('aR', { zones: ['z1'] }), member('bN')), 'a', { zone: 'z1' }),
  look(36, 'the fallback ignores hints', hinted(member('aT', { zones: ['z2'] })), 'a', { zone: 'z1' }),
  look(37, 'own zone unknown', hinted(member('aR', { zones: ['z1'] })), 'a', { zone: '' }),
  look(38, 'same node', threeNodes, 'a', { node: 'n1', zone: 'z1' }),
  look(39, 'unknown node, same zone', threeNodes, 'a b', { node: 'n9', zone: 'z1' }),
  look(
    40,
    'one endpoint without a node hint',
    hinted(member('aR', { nodes: ['n1'], zones: ['z1'] }), member('bR', { zones: ['z1'] })),
    'a b',
    { node: 'n1', zone: 'z1' },
  ),
  look(41, 'hints are lists', hinted(member('aR', { zones: ['z1', 'z3'] }), member('bR', { zones: ['z2'] })), 'a', {
    zone: 'z3',
  }),
];
