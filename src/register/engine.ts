import { deadlineRule } from '../adapter/http/request-deadline.js';
import {
  asError,
  checkPriority,
  isPromise,
  optionError,
  ownProperties,
  type ServiceRule,
} from '../adapter/kit/index.js';
import { isEvenkeelError, type TargetOptions } from '../index.js';

/** What `register.cjs` passes to the engine of each library that it balances. */
export interface EngineOptions {
  /** The hosts that are Services; all others are none. Undefined = DNS decides. */
  readonly listed: readonly string[] | undefined;
  /** Short names of Services that the engine leaves alone. */
  readonly excluded: ReadonlySet<string>;
  /** What `EVENKEEL_CONFIG` exports. */
  readonly config: RegisterConfig;
  /** Returns the short name of a Service, such as `orders.shop`, however `host` spells it. */
  shortName(host: string): string;
  /** The options of a Service are unusable, for example because a function of the config threw: from now on the app runs without evenkeel. */
  giveUp(error: Error): void;
}

/** What the module that `EVENKEEL_CONFIG` names may export. */
export interface RegisterConfig {
  readonly http?: unknown;
  readonly fetch?: unknown;
  readonly grpc?: unknown;
  readonly discovery?: TargetOptions | undefined;
}

/** Returns the rule for which hosts are Services, in the form that the options of an app take. */
export function servicesRule({ listed, excluded, shortName }: EngineOptions): ServiceRule {
  if (listed !== undefined) return listed.filter((host) => !excluded.has(shortName(host)));
  return ({ hostname }) => (excluded.has(shortName(hostname)) ? false : undefined);
}

/**
 * Returns how Services are found for an app that does not know of evenkeel. Such an app must not wait for an API server that does not
 * respond, for example behind a network policy. Until the API server responds, requests go where DNS says.
 */
export function discoveryOf({ config }: EngineOptions): TargetOptions {
  return { sliceGraceMs: 300, ...config.discovery };
}

/**
 * The options of Services in an app that has not asked for evenkeel: where every pod refuses connections, a request fails as soon as it
 * would without evenkeel.
 *
 * A function of the config that throws at a request, or returns what it may not, is given up with the rest, and that request goes on without
 * what the function would have said.
 *
 * @param options What `EVENKEEL_CONFIG` exports: options, or a function of the origin.
 */
export function serviceOptionsOf(
  options: unknown,
  giveUp: EngineOptions['giveUp'],
  defaults: object = { waitWhileRefused: false },
): unknown {
  const own = (configured: unknown): unknown => withGuards(configured, giveUp, defaults);
  return typeof options === 'function' ? (origin: URL) => own(options(origin)) : own(options);
}

type Ask = (...args: unknown[]) => unknown;

function withGuards(options: unknown, giveUp: EngineOptions['giveUp'], defaults: object): unknown {
  const isObject = typeof options === 'object' && options !== null && !isPromise(options);
  // Whoever gets the options says what is wrong with others.
  if (!isObject && options !== undefined) return options;
  const own: Record<string, unknown> = { ...defaults, ...options };
  const guard = (name: string, checked: (ask: Ask) => Ask): void => {
    const ask = Object.hasOwn(own, name) ? own[name] : undefined;
    // `prefixKey()` is a function with properties.
    if (typeof ask === 'function') own[name] = Object.assign(guarded(name, checked(ask as Ask), giveUp), ask);
  };
  guard('key', (ask) => ask);
  guard('priority', (ask) => (request) => checkedPriority(ask(request)));
  guard('deadlineMs', (ask) => deadlineRule(ask));
  guard('onBalancer', (ask) => ask);
  const propagate = ownProperties(own.propagate) as { readonly context?: { readonly current?: Ask } } | undefined;
  const context = propagate?.context;
  if (typeof context?.current === 'function') {
    const current = guarded('propagate.context.current', () => context.current?.(), giveUp);
    own.propagate = { ...propagate, context: { current } };
  }
  return own;
}

function checkedPriority(priority: unknown): unknown {
  return priority === undefined ? undefined : checkPriority(priority);
}

function guarded(name: string, ask: Ask, giveUp: EngineOptions['giveUp']): Ask {
  return (...args) => {
    try {
      const answer = ask(...args);
      if (!isPromise(answer)) return answer;
      // Nobody waits for it, and a rejection without a listener would end the process.
      void Promise.resolve(answer).catch(() => {});
      throw optionError(`${name}()`, 'no promise', answer);
    } catch (error) {
      giveUp(asError(error));
      return undefined;
    }
  };
}

/**
 * Converts an error to the one that an app would get without evenkeel, because apps look at the codes of Node and of their library.
 * evenkeel's own error becomes its `cause`.
 *
 * @param timeoutCode The library's own code for a connection that could not be opened in time.
 */
export function stockError(error: Error, host: string, timeoutCode = 'ETIMEDOUT'): Error {
  if (!isEvenkeelError(error) || error.code === 'EVENKEEL_OPTION') return error;
  const found = libraryErrorOf(error);
  if (found !== undefined) return Object.assign(new Error(found.message, { cause: error }), found);
  const isLate = error.code === 'EVENKEEL_DEADLINE' || error.code === 'EVENKEEL_NOT_READY';
  const code = isLate ? timeoutCode : 'ECONNREFUSED';
  return Object.assign(new Error(`connect ${code} ${host}`, { cause: error }), { code, syscall: 'connect' });
}

/** Finds the error of Node, OpenSSL or undici behind an error of evenkeel, because apps know its code and other fields. */
function libraryErrorOf(error: Error): NodeJS.ErrnoException | undefined {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (!isEvenkeelError(cause) && typeof code === 'string') return cause;
  }
  return undefined;
}
