import diagnostics from 'node:diagnostics_channel';
import {
  type Balancer,
  createBalancer,
  createEndpoint,
  type DiagnosticsEvents,
  dns,
  EvenkeelError,
  isEvenkeelError,
  type Lease,
  type LoadFactory,
  type Outcome,
  outcomes,
  type PickerFactory,
  type PickTarget,
  p2c,
  type Resolver,
  reported,
  staticEndpoints,
  type Transport,
  without,
} from 'evenkeel';

interface Client {
  ask(question: string): Promise<number>;
}

declare const transport: Transport<Client>;
const resolver: Resolver = staticEndpoints([{ address: '10.0.0.1', port: 80, weight: 2 }]);

// What the transport opens is what callers get, without saying its type again.
const balancer = createBalancer({ resolver, transport, picker: p2c() });
const typed: Balancer<Client> = balancer;
const lease: Lease<Client> | undefined = typed.pick({ key: 'customer-1' });
lease?.end(outcomes.success);
// The retry policy and the inside of a subchannel are for adapters.
// @ts-expect-error
void lease?.retries;
// @ts-expect-error
void lease?.subchannel.state;
// Tests of an application can make a lease of their own.
export const made: Lease<string> = {
  handle: 'anna',
  endpoint: createEndpoint({ address: '10.0.0.1', port: 80 }),
  subchannel: {
    endpoint: createEndpoint({ address: '10.0.0.1', port: 80 }),
    inFlight: 0,
    hasRoom: true,
    cost: () => 1,
  },
  startedMs: 0,
  answered: false,
  answeredMs: undefined,
  leaving: AbortSignal.abort(),
  outcome: undefined,
  progressed() {},
  reported() {},
  confirm() {},
  end() {},
};
const answer: Promise<number> = balancer.run((client) => client.ask('how many?'), { idempotent: true });
const mapped: Promise<string> = balancer.run(
  async (client, used) => `${await client.ask('?')} of ${used.endpoint.key}`,
);
void [answer, mapped];

// Options that come from somewhere else are often `undefined`, which means the default.
const seconds: number | undefined = process.argv.length > 2 ? 1 : undefined;
createBalancer({
  resolver,
  transport,
  waitTimeoutMs: seconds,
  maxWaiting: undefined,
  picker: undefined,
  load: undefined,
  stages: undefined,
  observer: undefined,
  retry: { maxAttempts: seconds, budget: { ratio: seconds }, when: undefined },
  pool: { maxConnecting: seconds, drainTimeoutMs: undefined },
});
p2c({ choices: seconds });
reported({ metric: undefined, expireAfterMs: seconds });
dns({ host: 'orders.shop', port: 80, intervalMs: seconds });
balancer.pick({ key: undefined });

// Everything that lives can be disposed of.
export async function scoped(): Promise<void> {
  await using scopedBalancer = createBalancer({ resolver, transport });
  await scopedBalancer.ready({ signal: AbortSignal.timeout(1_000) });
}

// Our own parts fit without a cast.
const mine: Resolver = {
  name: 'mine',
  watch: (listener, { clock }) => {
    clock.defer(() => listener.update([]));
    return { refresh() {}, close() {} };
  },
};
const first: PickerFactory = (set) => ({ pick: () => set.targets[0] });
// A picker reads what it needs for a choice, and nothing that would change a subchannel.
const known: Record<keyof PickTarget, true> = { endpoint: true, inFlight: true, hasRoom: true, cost: true };
export const ofTarget = (target: PickTarget): readonly unknown[] => [
  known,
  target.endpoint.address,
  target.cost(0),
  // @ts-expect-error
  target.connection,
];
const constant: LoadFactory = () => ({ decays: false, start() {}, end() {}, value: () => 1 });
createBalancer({
  resolver: mine,
  transport,
  picker: first,
  load: constant,
  stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
});

// Errors are told apart by their code, and the list of codes is closed.
try {
  throw new EvenkeelError('EVENKEEL_CLOSED', 'gone');
} catch (error) {
  if (isEvenkeelError(error)) {
    switch (error.code) {
      case 'EVENKEEL_NO_ENDPOINTS':
      case 'EVENKEEL_NOT_READY':
      case 'EVENKEEL_QUEUE_FULL':
      case 'EVENKEEL_OVERLOAD':
      case 'EVENKEEL_TOO_LATE':
      case 'EVENKEEL_DEADLINE':
      case 'EVENKEEL_CONNECT':
      case 'EVENKEEL_RESOLVE':
      case 'EVENKEEL_FORBIDDEN':
      case 'EVENKEEL_PORT_AMBIGUOUS':
      case 'EVENKEEL_CLOSED':
      case 'EVENKEEL_OPTION':
        break;
      default:
        error.code satisfies never;
    }
  }
}

const outcome: Outcome = { kind: 'failure', cause: 'timeout' };
lease?.end(outcome);

// @ts-expect-error: a transport is needed
createBalancer({ resolver });
// @ts-expect-error: an option that does not exist
createBalancer({ resolver, transport, waitTimeout: 5 });
// @ts-expect-error: a picker is a value, not a name
createBalancer({ resolver, transport, picker: 'p2c' });
// @ts-expect-error: of another type than the transport opens
const wrong: Balancer<string> = balancer;
// @ts-expect-error: outcomes are a closed list
lease?.end({ kind: 'maybe' });
void wrong;

// A code that was asked for is known from then on.
export function endpointOf(error: unknown): 'EVENKEEL_CONNECT' | undefined {
  return isEvenkeelError(error, 'EVENKEEL_CONNECT') ? error.code : undefined;
}

// As on the page about the observer.
const log: { error(value: object): void } = console;
diagnostics.subscribe('evenkeel:resolveFailed', (message) => {
  const { resolver: name, error, stale } = message as DiagnosticsEvents['resolveFailed'];
  log.error({ name, error, stale });
});
