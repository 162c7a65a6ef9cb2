import type { ServiceRule } from '../adapter/kit/index.js';
import { isEvenkeelError, type TargetOptions } from '../index.js';

/** What `register.cjs` passes to the engine of each library. */
export interface EngineOptions {
  /** Hosts that are Services, and no others; undefined: DNS decides. */
  readonly listed: readonly string[] | undefined;
  /** Short names of Services that the engine leaves alone. */
  readonly excluded: ReadonlySet<string>;
  /** What `EVENKEEL_CONFIG` exports. */
  readonly config: RegisterConfig;
  /** The short name of a Service, such as `orders.shop`, whichever way `host` spells it. */
  shortName(host: string): string;
}

/** What a module named by `EVENKEEL_CONFIG` may export. */
export interface RegisterConfig {
  readonly http?: unknown;
  readonly fetch?: unknown;
  readonly grpc?: unknown;
  readonly discovery?: TargetOptions | undefined;
}

/** Which hosts are Services, as the options of an app take it. */
export function servicesRule({ listed, excluded, shortName }: EngineOptions): ServiceRule {
  if (listed !== undefined) return listed.filter((host) => !excluded.has(shortName(host)));
  return ({ hostname }) => (excluded.has(shortName(hostname)) ? false : undefined);
}

/**
 * How Services are found for an app that has not asked for evenkeel: it does not wait for an API server that gives no answer, such as one
 * behind a network policy. Until the API server answers, requests go where DNS says.
 */
export function discoveryOf({ config }: EngineOptions): TargetOptions {
  return { sliceGraceMs: 300, ...config.discovery };
}

/**
 * The options of Services in an app that has not asked for evenkeel: where every pod refuses connections, a request fails as soon as it
 * would without evenkeel.
 *
 * @param options What `EVENKEEL_CONFIG` exports: options, or a function of the origin.
 */
export function serviceOptionsOf(options: unknown): unknown {
  if (typeof options === 'function') return (origin: URL) => withOwnDefaults(options(origin));
  return withOwnDefaults(options);
}

function withOwnDefaults(options: unknown): unknown {
  const isObject = typeof options === 'object' && options !== null && !(options instanceof Promise);
  // Whoever gets the options says what is wrong with others.
  return isObject || options === undefined ? { waitWhileRefused: false, ...options } : options;
}

/**
 * An error as an app without evenkeel would get it: apps match the codes of Node and of their library. evenkeel's own error is its `cause`.
 *
 * @param timeoutCode The library's own code for a connection that could not be opened in time.
 */
export function stockError(error: Error, host: string, timeoutCode = 'ETIMEDOUT'): Error {
  if (!isEvenkeelError(error) || error.code === 'EVENKEEL_OPTION') return error;
  const found = libraryErrorOf(error);
  if (found !== undefined) return Object.assign(new Error(found.message, { cause: error }), found);
  const code = error.code === 'EVENKEEL_DEADLINE' ? timeoutCode : 'ECONNREFUSED';
  return Object.assign(new Error(`connect ${code} ${host}`, { cause: error }), { code, syscall: 'connect' });
}

/** The error of Node, OpenSSL or undici behind an error of evenkeel: apps know its code and other fields. */
function libraryErrorOf(error: Error): NodeJS.ErrnoException | undefined {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (!isEvenkeelError(cause) && typeof code === 'string') return cause;
  }
  return undefined;
}
