import { type experimental, type Metadata, status } from '@grpc/grpc-js';
import { isTraced } from '../kit/index.js';
import { BalancedCall } from './balanced-call.js';
import { MethodHistory } from './method-history.js';
import { type TracedChannel, traceOfCall } from './traced-call.js';

type CallConfig = ReturnType<experimental.ConfigSelector['invoke']>;
type MethodConfig = CallConfig['methodConfig'];
type ServiceConfigOrError = NonNullable<Parameters<experimental.ResolverListener>[2]>;
/** A `grpc.service_config` parsed by grpc-js. */
export type ServiceConfig = Extract<ServiceConfigOrError, { ok: true }>['value'];

/** A service config as JSON; grpc-js checked it when the channel was created. */
interface RawServiceConfig extends Omit<Partial<ServiceConfig>, 'methodConfig'> {
  readonly methodConfig?: readonly (Omit<MethodConfig, 'timeout'> & {
    readonly timeout?: string | MethodConfig['timeout'];
  })[];
}

/** What is remembered about a method. */
interface Method {
  readonly config: MethodConfig;
  readonly history: MethodHistory;
  readonly isHedged: boolean;
}

/** How many methods are remembered. */
const MAX_REMEMBERED = 1_000;

/**
 * The user's `grpc.service_config` with `policy` as the first load balancing policy. gRPC uses the first one it knows, so the user's own
 * stays behind it, unless it names `policy` itself.
 */
export function mergeServiceConfig(json: string | undefined, policy: string): ServiceConfig {
  const raw = (json ? JSON.parse(json) : {}) as RawServiceConfig;
  const policies = raw.loadBalancingConfig ?? [];
  const named = JSON.stringify(policies).includes(`"${policy}"`);
  return {
    ...raw,
    loadBalancingConfig: named ? policies : [{ [policy]: {} }, ...policies],
    methodConfig: (raw.methodConfig ?? []).map(({ timeout, ...rest }) => ({
      ...rest,
      ...(timeout !== undefined && { timeout: typeof timeout === 'string' ? parseDuration(timeout) : timeout }),
    })),
  };
}

/** `1.5s` as seconds and nanoseconds. */
function parseDuration(text: string): { seconds: number; nanos: number } {
  const [seconds = '0', fraction = ''] = text.replace(/s$/, '').split('.');
  return { seconds: Number(seconds), nanos: Number(fraction.padEnd(9, '0')) };
}

/**
 * Gives each call its method's configuration, and a `BalancedCall`: the one object that follows it through its attempts.
 */
export class CallConfigs implements experimental.ConfigSelector {
  readonly #methods: readonly MethodConfig[];
  readonly #channel: TracedChannel;
  readonly #remembered = new Map<string, Method>();

  constructor(config: ServiceConfig, channel: TracedChannel) {
    this.#methods = config.methodConfig;
    this.#channel = channel;
  }

  invoke(path: string, metadata?: Metadata): CallConfig {
    let method = this.#remembered.get(path);
    if (method === undefined) {
      const config = this.#find(path);
      method = { config, history: new MethodHistory(path), isHedged: config.hedgingPolicy !== undefined };
      if (this.#remembered.size < MAX_REMEMBERED) this.#remembered.set(path, method);
    }
    const channel = this.#channel;
    const call = new BalancedCall(method.history, channel.clock);
    if (isTraced()) call.trace = traceOfCall(metadata, channel, path);
    call.isHedged = method.isHedged;
    return {
      methodConfig: method.config,
      // grpc-js passes it to the picker unchanged, for every attempt of this call.
      pickInformation: call as unknown as CallConfig['pickInformation'],
      status: status.OK,
      dynamicFilterFactories: [call],
    };
  }

  unref(): void {
    this.#remembered.clear();
  }

  /** The most specific one: service and method, then service, then the one without a name (gRFC A2). */
  #find(path: string): MethodConfig {
    const [service = '', method = ''] = path.split('/').filter((part) => part !== '');
    const named = (wanted: (name: MethodConfig['name'][number]) => boolean): MethodConfig | undefined =>
      this.#methods.find((config) => config.name.some(wanted));
    return (
      named((name) => name.service === service && name.method === method) ??
      named((name) => name.service === service && !name.method) ??
      named((name) => !name.service && !name.method) ?? { name: [] }
    );
  }
}
