import type { experimental } from '@grpc/grpc-js';
import { repeatRefused } from './internals.js';

type MethodConfig = ReturnType<experimental.ConfigSelector['invoke']>['methodConfig'];
type ServiceConfigOrError = NonNullable<Parameters<experimental.ResolverListener>[2]>;
/** A `grpc.service_config` parsed by grpc-js. */
export type ServiceConfig = Extract<ServiceConfigOrError, { ok: true }>['value'];

/** A service config as JSON, which grpc-js checked when the channel was created. */
interface RawServiceConfig extends Omit<Partial<ServiceConfig>, 'methodConfig'> {
  readonly methodConfig?: readonly (Omit<MethodConfig, 'timeout'> & {
    readonly timeout?: string | MethodConfig['timeout'];
  })[];
}

/**
 * A gRPC method of a channel: its configuration, and what its calls have shown so far. A channel is not told whether a method streams, but
 * that matters: a quiet subscription does not mean a hanging pod.
 */
export class Method {
  /** The path of the method: `/package.Service/Method`. */
  readonly path: string;
  readonly config: MethodConfig;
  /** Whether attempts of one call of the method may run side by side. */
  readonly isHedged: boolean;
  /**
   * Whether the application configured neither retries nor hedges for the method, so that only a call that its pod refused has another
   * attempt.
   */
  readonly repeatsRefusedOnly: boolean;
  /** Whether a call of the method succeeded with exactly one response. */
  single = false;
  /** Whether a call of the method succeeded with no response, or had several. */
  streaming = false;

  constructor(path = '', { methodConfig }: Pick<ServiceConfig, 'methodConfig'> = { methodConfig: [] }) {
    this.path = path;
    const config = configOf(path, methodConfig);
    this.isHedged = config.hedgingPolicy !== undefined;
    this.repeatsRefusedOnly = !this.isHedged && config.retryPolicy === undefined;
    this.config = this.repeatsRefusedOnly ? { ...config, retryPolicy: repeatRefused } : config;
  }
}

/**
 * The most specific method configuration for a path: for service and method, else for the service, else the one without a name (gRFC A2).
 */
function configOf(path: string, configs: readonly MethodConfig[]): MethodConfig {
  const [service = '', method = ''] = path.split('/').filter((part) => part !== '');
  const named = (wanted: (name: MethodConfig['name'][number]) => boolean): MethodConfig | undefined =>
    configs.find((config) => config.name.some(wanted));
  return (
    named((name) => name.service === service && name.method === method) ??
    named((name) => name.service === service && !name.method) ??
    named((name) => !name.service && !name.method) ?? { name: [] }
  );
}

/**
 * Returns the application's `grpc.service_config` with `policy` as the first load balancing policy. gRPC uses the first policy it knows, so
 * the application's own stays behind it, unless it names `policy` itself.
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

/** Converts a protobuf duration such as `1.5s` to seconds and nanoseconds. */
function parseDuration(text: string): { seconds: number; nanos: number } {
  const [seconds = '0', fraction = ''] = text.replace(/s$/, '').split('.');
  return { seconds: Number(seconds), nanos: Number(fraction.padEnd(9, '0')) };
}
